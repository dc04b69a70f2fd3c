"""Where a task is made and where it comes to be: one maker at a time, and what is there already stays."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.authoring.commit.task_draft import named
from agentbench.core.errors import InputError, Interrupted

_POLL_SEC = 0.2
_VANISHED = 1000
"""So often in a row the folder of drafts may be removed by the last who used it, just before it is used here."""


class PlaceTaken(InputError):
    """Something is where a task is to be."""


@dataclass(frozen=True, slots=True)
class Site:
    """A task to be made: the suite, its id, and what helps where that place is taken."""

    suite_dir: Path
    task_id: str
    remedy: str = "remove it, or give another --suite-dir"
    what: str = "task id"
    """What the id was drawn from, for who has to change it."""

    def place(self) -> Path:
        """Where it is to be.

        Raises:
            InputError: names that are none, a path among them.
            PlaceTaken: a place that is taken.
        """
        suite = self.suite_dir.absolute()
        named(self.task_id, self.what)
        named(suite.name, f"--suite-dir {self.suite_dir}")
        place = suite / self.task_id
        if place.exists():
            raise PlaceTaken(f"{place} exists already", remedy=self.remedy)
        return place

    def draft(self) -> Path:
        """Where it is made: as deep as its place, so that paths relative to it stay what they are."""
        suite = self.suite_dir.absolute()
        return suite.parent / f".{suite.name}.draft" / self.task_id


@dataclass(frozen=True, slots=True)
class Patience:
    """How one waits for another who makes the same task."""

    tell: Callable[[str], None] = lambda _line: None
    cancelled: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def workshop(site: Site, patience: Patience | None = None) -> Iterator[tuple[Path, Path]]:
    """The place of a task and a folder to make it in, for one maker at a time, thread or process. The folder is gone afterwards.

    Raises:
        InputError: names that are none, or a folder that cannot be written.
        PlaceTaken: a place that is taken, perhaps by who was waited for.
        Interrupted: while waiting.
    """
    site.place()
    folder = site.draft()
    # No task is called so, and while it lies there the folder of drafts is not empty: nobody removes that meanwhile.
    lock = folder.with_name(f".{site.task_id}.lock")
    fd = _held(lock, site.task_id, patience or Patience())
    try:
        yield site.place(), folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            lock.unlink()
            folder.parent.rmdir()
        os.close(fd)


def publish(folder: Path, place: Path) -> None:
    """Move a finished draft to its place.

    Raises:
        PlaceTaken: something came to be there meanwhile.
        InputError: the place cannot be written.
    """
    if place.exists():
        raise PlaceTaken(f"{place} exists already", remedy="remove it, or give another --suite-dir")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(place)
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror}") from None


def _held(lock: Path, task_id: str, patience: Patience) -> int:
    """A lock that ends with its holder, however that ends."""
    told = False
    while True:
        fd = _opened(lock)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
        except OSError as error:
            os.close(fd)
            raise InputError(f"{lock}: cannot be locked: {error.strerror}") from None
        else:
            if _lies_there(fd, lock):
                return fd
            os.close(fd)  # its holder has removed it: whoever comes now would lock another one
            continue
        if not told:
            patience.tell(f"{task_id}: another command is making it; waiting")
            told = True
        if patience.cancelled.wait(_POLL_SEC):
            raise Interrupted(f"{task_id}: interrupted while another command was making it")


def _opened(lock: Path) -> int:
    try:
        lock.parent.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_VANISHED):
            # The last maker removes the folder when it is empty: between these two, for one.
            with contextlib.suppress(FileExistsError):
                lock.parent.mkdir()
            with contextlib.suppress(FileNotFoundError):
                return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise InputError(f"{error.filename or lock}: cannot be written: {error.strerror}") from None
    raise InputError(f"{lock.parent}: is no folder", remedy="remove it")


def _lies_there(fd: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), lock.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
