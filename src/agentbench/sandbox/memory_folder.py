"""A folder in memory for hidden tests and evidence of attempts on a node, which must not be on its disk in clear.

The folder is locked while its process lives. If the process is killed, a program that outlives it removes the folder and what its
sandboxes left; a process that starts removes the folders of dead ones too, in case that program was killed as well.

    python -m agentbench.sandbox.memory_folder FOLDER STATE     that program
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

from agentbench.core.errors import AgentBenchError, WorkspaceError
from agentbench.core.file_lock import try_lock
from agentbench.core.ids import new_ulid
from agentbench.process import ProgramAfterExit
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import remove_leftovers

ROOT = Path("/dev/shm")
_LOCK = "lock"
_TRIES = 5


class MemoryFolder:
    """A private folder that exists as long as its process, or until it is closed."""

    def __init__(self, state: Path, root: Path = ROOT) -> None:
        """
        Raises:
            WorkspaceError: this machine has no file system in memory that can be written.
            HarnessError: the program that cleans up cannot be started.
        """
        parent = root / f"agentbench-{os.geteuid()}"
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            if parent.is_symlink() or parent.stat().st_uid != os.geteuid():
                raise WorkspaceError(f"{parent} belongs to another user")
            remove_dead(parent)
            self.path = parent / new_ulid().lower()
            self.path.mkdir(mode=0o700)
            self._fd = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            msg = f"cannot write {parent}, where hidden tests are kept in memory: {error.strerror or error}"
            raise WorkspaceError(msg, remedy="mount a tmpfs there") from error
        try_lock(self._fd)
        # The pipe to it closes with this object or this process.
        self._cleanup = ProgramAfterExit([sys.executable, "-m", __name__, str(self.path), str(state)])

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)


def remove_dead(parent: Path) -> None:
    """Remove the folders whose processes are dead."""
    for folder in parent.iterdir():
        try:
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # being created or removed
        try:
            if try_lock(fd):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(fd)


def main() -> None:
    """Remove a folder in memory, and the sandboxes of dead processes on both backends."""
    folder, state = Path(sys.argv[1]), Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    for _ in range(_TRIES):
        remove_leftovers(state)
        time.sleep(1)  # the spawner of the dead process holds its folder until its sandboxes have ended
    if shutil.which("docker") is not None:
        with contextlib.suppress(AgentBenchError):
            open_backend("docker", state=state, needs_image=False).close()


if __name__ == "__main__":
    main()
