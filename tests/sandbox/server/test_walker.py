"""The command server lists a folder; digests are reused only for files that did not change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agentbench.sandbox.server import walker
from agentbench.sandbox.server.capture import unpack

pytestmark = pytest.mark.component

LONG_AGO = 1


def listing(root: Path, digests: walker.Digests | None, since_ns: int = LONG_AGO) -> list[list[bytes]]:
    state, entries = walker.Walk(os.fsencode(root), 1 << 30, since_ns, digests).piece()
    assert state == b"end"
    return [unpack(entry) for entry in unpack(entries)]


def test_digests_of_unchanged_files_are_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("22")
    time.sleep(0.05)  # a file that changed just now is not remembered
    digests: walker.Digests = {}
    first = listing(tmp_path, digests)
    assert first == listing(tmp_path, None)
    monkeypatch.setattr(walker, "digest_of", lambda _fd: pytest.fail("read again"))
    assert listing(tmp_path, digests) == first


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    digests: walker.Digests = {}
    for content in ("1", "2", "3"):
        (tmp_path / "a").write_text(content)
        assert listing(tmp_path, digests) == listing(tmp_path, None)


def test_files_that_changed_just_now_are_not_remembered(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    digests: walker.Digests = {}
    walk = walker.Walk(os.fsencode(tmp_path), 1 << 30, LONG_AGO, digests)
    walk.settled_ns = (tmp_path / "a").stat().st_ctime_ns
    walk.piece()
    assert digests == {}


def test_files_from_before_the_start_are_named_only(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    assert listing(tmp_path, None, since_ns=time.time_ns() + 10**9) == [[b"a", b"k", b"", b"", b""]]


def test_number_of_digests_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walker, "MAX_DIGESTS", 3)
    for number in range(10):
        (tmp_path / f"{number}").write_text(f"{number}")
    time.sleep(0.05)
    digests: walker.Digests = {}
    listing(tmp_path, digests)
    assert 0 < len(digests) <= 3
