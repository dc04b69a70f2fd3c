"""A folder in memory for hidden tests and evidence of attempts on a node, which must not be on its disk in clear.

The folder is locked while its process lives. The watchdog of the process removes it afterwards; a process that starts removes the
folders of dead ones too, in case that watchdog was killed as well.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agentbench.core.errors import WorkspaceError
from agentbench.core.file_lock import try_lock
from agentbench.core.ids import new_ulid

ROOT = Path("/dev/shm")
_LOCK = "lock"


class MemoryFolder:
    """A private folder that exists as long as its process, or until it is closed."""

    def __init__(self, root: Path = ROOT) -> None:
        """
        Raises:
            WorkspaceError: this machine has no file system in memory that can be written.
        """
        parent = root / f"agentbench-{os.geteuid()}"
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            if parent.is_symlink() or parent.stat().st_uid != os.geteuid():
                raise WorkspaceError(f"{parent} belongs to another user")
            remove_dead(parent)
            name = new_ulid().lower()
            self.path, hidden = parent / name, parent / f".{name}"
            hidden.mkdir(mode=0o700)
            self._fd = os.open(hidden / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try_lock(self._fd)
            # Renamed only once it is locked, so that it is never mistaken for the folder of a dead process.
            hidden.rename(self.path)
        except OSError as error:
            msg = f"cannot write {parent}, where hidden tests are kept in memory: {error.strerror or error}"
            raise WorkspaceError(msg, remedy="mount a tmpfs there") from error

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)


def remove_dead(parent: Path) -> None:
    """Remove the folders whose processes are dead."""
    for folder in parent.glob("[!.]*"):
        try:
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # being removed
        try:
            if try_lock(fd):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(fd)
