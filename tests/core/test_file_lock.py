from __future__ import annotations

import os
import threading
from pathlib import Path

from agentbench.core.file_lock import file_lock, is_locked, try_lock


def test_lock_is_held_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with file_lock(path):
        assert is_locked(path)
    assert not is_locked(path)


def test_file_that_does_not_exist_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "missing")


def test_second_holder_waits_for_the_first(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    order: list[str] = []

    def second() -> None:
        with file_lock(path):
            order.append("second")

    with file_lock(path):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_shared_locks_exclude_only_an_exclusive_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    fds = [os.open(path, os.O_RDWR) for _ in range(3)]
    try:
        assert try_lock(fds[0], shared=True)
        assert try_lock(fds[1], shared=True)
        assert not try_lock(fds[2])
    finally:
        for fd in fds:
            os.close(fd)


def test_lock_ends_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        with file_lock(path):
            os.write(done, b"x")
            os.kill(os.getpid(), 9)
    os.read(ready, 1)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(done)
    assert not is_locked(path)
