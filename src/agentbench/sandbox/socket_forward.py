"""Forwards a loopback port inside a sandbox without network to a unix socket of the harness.

The socket lies in a folder that is mounted into the sandbox, beside the program that forwards to it. The backend
decides which user a sandbox runs as, so the socket is open to everyone, inside a folder (mode 0700) that only a mount
can bypass.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Mount, Sandbox, SandboxSpec
from agentbench.sandbox.server_bundle import module_source
from agentbench.sandbox.state import age_sec

FORWARDER = "forward.py"
READY_SEC = 20.0
MIN_STALE_SEC = 60.0
"""A socket that was just bound refuses connections until the first `listen`, so a younger one is never stale."""
_EXTRA_SEC = 60.0
"""How much longer than its clients the forwarder may run; it ends with the sandbox."""
_MOUNT = "mount"


class SocketForward:
    """One forwarded socket: `name` names the socket and its place inside, `port` is on the sandbox's loopback."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.folder = folder
        self.mounted = folder / _MOUNT
        """The folder that is mounted into the sandbox."""
        self.name = name
        self.port = port

    def listen(self, backlog: int) -> socket.socket:
        """Create the folder and the forwarder program, and listen on the socket.

        Raises:
            SandboxError: the folder cannot be written.
        """
        listener = socket.socket(socket.AF_UNIX)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self.mounted.mkdir(exist_ok=True)
            self.mounted.chmod(0o755)
            program = self.mounted / FORWARDER
            program.write_text(module_source("forward"))
            program.chmod(0o644)
            self.socket.unlink(missing_ok=True)
            with short_path(self.socket) as address:
                listener.bind(address)
            self.socket.chmod(0o666)
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            msg = f"the {self.name} cannot listen in {self.folder}: {error.strerror or error}"
            raise SandboxError(msg, remedy="set AB_STATE to a writable folder") from error
        return listener

    @property
    def socket(self) -> Path:
        return self.mounted / f"{self.name}.sock"

    def add_to(self, spec: SandboxSpec, env: Mapping[str, str]) -> SandboxSpec:
        """Return `spec` with this socket mounted; `env` tells clients inside where to connect."""
        mount = Mount(self.mounted, f"/opt/{self.name}")
        return dataclasses.replace(spec, mounts=(*spec.mounts, mount), env={**spec.env, **env})

    def start(self, sandbox: Sandbox, wall_sec: float) -> None:
        """Start the forwarder inside the sandbox and wait until it listens. It ends with the sandbox.

        Raises:
            SandboxError: it did not start.
        """
        ready = threading.Event()
        inside = f"/opt/{self.name}"
        argv = ("python3", f"{inside}/{FORWARDER}", str(self.port), f"{inside}/{self.socket.name}")
        command = Command(argv=argv, cwd="/", timeout_sec=wall_sec + _EXTRA_SEC)
        sandbox.start(command, on_stdout=lambda _data: ready.set())
        if not ready.wait(READY_SEC):
            msg = f"the forwarder to the {self.name} did not start inside the sandbox"
            raise SandboxError(msg, remedy="check that python3 is installed in the task's image")

    def remove(self) -> None:
        for file in (self.socket, self.mounted / FORWARDER):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.mounted.rmdir()
            self.folder.rmdir()


def remove_stale_sockets(parent: Path) -> int:
    """Remove the socket folders below `parent` whose harness was killed, and return how many."""
    removed = 0
    for folder in _subfolders(parent):
        path = next((folder / _MOUNT).glob("*.sock"), None)
        if path is not None and age_sec(path) > MIN_STALE_SEC and _refuses_connections(path):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _subfolders(parent: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()]
    return []


def _refuses_connections(path: Path) -> bool:
    """Return whether no process listens on the socket. A full queue does not count: its owner is alive."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock, short_path(path) as address:
        sock.setblocking(False)
        try:
            sock.connect(address)
        except ConnectionRefusedError:
            return True
    return False


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Give a socket's path in a form short enough for a socket address (108 bytes)."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
