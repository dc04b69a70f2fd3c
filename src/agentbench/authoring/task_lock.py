"""Reserve a task folder while it is created, so that only one command at a time creates it.

A task is written into a draft folder and moved to its target when it is complete. Existing tasks are never overwritten.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from agentbench.authoring.commit.task_draft import check_name
from agentbench.contract.freeze_scenario import freeze_scenario
from agentbench.contract.load import TASK_NAME, load_scenario
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, Interrupted
from agentbench.core.file_lock import try_lock

_POLL_SEC = 0.2
_ATTEMPTS = 1000
"""Attempts to create the lock file while others keep removing its empty folder."""


class TaskExists(InputError):
    """The target folder of a task already exists."""


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """Suite and id of a task to be created."""

    suite_dir: Path
    task_id: str
    remedy: str = "remove it, or pass another --suite-dir"
    id_source: str = "task id"
    """Where the id comes from, for error messages."""

    def target(self) -> Path:
        """Return the final folder of the task.

        Raises:
            InputError: the task id or the suite name is not valid.
            TaskExists: the folder exists.
        """
        suite = self.suite_dir.absolute()
        check_name(self.task_id, self.id_source)
        check_name(suite.name, f"--suite-dir {self.suite_dir}")
        target = suite / self.task_id
        if target.exists():
            raise TaskExists(f"{target} already exists", remedy=self.remedy)
        return target

    def draft(self) -> Path:
        """Return the draft folder, as deep as the target so that relative paths stay valid."""
        suite = self.suite_dir.absolute()
        return suite.parent / f".{suite.name}.draft" / self.task_id


@contextlib.contextmanager
def locked_draft(
    location: TaskLocation,
    *,
    notify: Callable[[str], None] = lambda _line: None,
    cancelled: threading.Event | None = None,
) -> Iterator[tuple[Path, Path]]:
    """Lock a task against other threads and processes; yield its target and its draft folder.

    Waits while another command creates the same task, and reports that through `notify`. Removes the draft folder at the end.

    Raises:
        InputError: a name is not valid, the folder cannot be written, or the scenario of the suite is not valid.
        TaskExists: the target exists, possibly created by the command that was waited for.
        Interrupted: `cancelled` was set while waiting.
    """
    load_scenario(location.target().parent)
    draft = location.draft()
    # Task ids cannot start with a dot. The lock file also keeps the folder of drafts from being removed as empty.
    lock = draft.with_name(f".{location.task_id}.lock")
    fd = _acquire(lock, location.task_id, notify, cancelled or threading.Event())
    try:
        yield location.target(), draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        with contextlib.suppress(OSError):
            lock.unlink()
            draft.parent.rmdir()
        os.close(fd)


def publish(draft: Path, target: Path) -> None:
    """Freeze the suite's scenario into a complete draft and move it to its target.

    Raises:
        TaskExists: the target was created in the meantime.
        InputError: the target cannot be written.
        ContractError: the scenario of the suite is not valid.
    """
    if target.exists():
        raise TaskExists(f"{target} already exists", remedy="remove it, or pass another --suite-dir")
    file = draft / TASK_NAME
    try:
        file.write_text(freeze_scenario(file.read_text(encoding="utf-8"), target.parent), encoding="utf-8")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(target)
    except OSError as error:
        raise InputError(f"{target}: cannot write: {error.strerror}") from None


def _acquire(lock: Path, task_id: str, notify: Callable[[str], None], cancelled: threading.Event) -> int:
    announced = False
    while True:
        fd = _open(lock)
        try:
            locked = try_lock(fd)
        except OSError as error:
            os.close(fd)
            raise InputError(f"{lock}: cannot lock: {error.strerror}") from None
        if locked and _is_current(fd, lock):
            return fd
        os.close(fd)
        if locked:
            continue  # the previous holder has removed this file; lock the new one
        if not announced:
            notify(f"{task_id}: waiting for another command that creates it")
            announced = True
        if cancelled.wait(_POLL_SEC):
            raise Interrupted(f"{task_id}: interrupted while waiting for another command that creates it")


def _open(lock: Path) -> int:
    try:
        lock.parent.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_ATTEMPTS):
            # Another command may remove the empty folder between these two calls.
            with contextlib.suppress(FileExistsError):
                lock.parent.mkdir()
            with contextlib.suppress(FileNotFoundError):
                return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise InputError(f"{error.filename or lock}: cannot write: {error.strerror}") from None
    raise InputError(f"{lock.parent} is not a folder", remedy="remove it")


def _is_current(fd: int, lock: Path) -> bool:
    """Return whether the open file is still the one at `lock`."""
    try:
        return os.path.samestat(os.fstat(fd), lock.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
