"""A door into a sandbox without a network: a unix socket of the harness's, and loopback inside that leads to it.

The socket lies in a folder that the sandbox mounts, beside the program that forwards to it. Which user a sandbox runs as is its
backend's affair, so the socket is open to all, in a folder that is open to nobody: only a mount leads past it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import threading
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Mount, Sandbox, SandboxSpec

FORWARDER = "forward.py"
READY_SEC = 20.0
_LATE_SEC = 60.0
"""The forwarder outlives what uses it; it ends with the sandbox."""


class Door:
    """`name`: of the socket, and of the place where the sandbox sees it. `port`: on the sandbox's own loopback."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self.folder = folder
        self.mounted = folder / "door"
        """What a sandbox mounts."""
        self.name = name
        self.port = port

    def listen(self, backlog: int) -> socket.socket:
        """
        Raises:
            SandboxError: the folder cannot be used.
        """
        listener = socket.socket(socket.AF_UNIX)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self.mounted.mkdir(exist_ok=True)
            self.mounted.chmod(0o755)
            program = self.mounted / FORWARDER
            program.write_bytes(resources.files("agentbench.sandbox.server").joinpath(FORWARDER).read_bytes())
            program.chmod(0o644)
            self.socket.unlink(missing_ok=True)
            _bind(listener, self.socket)
            self.socket.chmod(0o666)
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            msg = f"the {self.name} cannot listen in {self.folder}: {error.strerror or error}"
            raise SandboxError(msg) from error
        return listener

    @property
    def socket(self) -> Path:
        return self.mounted / f"{self.name}.sock"

    def in_front_of(self, spec: SandboxSpec, env: Mapping[str, str]) -> SandboxSpec:
        """A sandbox with this door, whose clients find it by `env`."""
        mount = Mount(self.mounted, f"/opt/{self.name}")
        return dataclasses.replace(spec, mounts=(*spec.mounts, mount), env={**spec.env, **env})

    def open(self, sandbox: Sandbox, wall_sec: float) -> None:
        """Start the forwarder inside and wait until it listens; it ends with the sandbox.

        Raises:
            SandboxError: it did not start.
        """
        ready = threading.Event()
        inside = f"/opt/{self.name}"
        argv = ("python3", f"{inside}/{FORWARDER}", str(self.port), f"{inside}/{self.socket.name}")
        command = Command(argv=argv, cwd="/", timeout_sec=wall_sec + _LATE_SEC)
        sandbox.start(command, on_stdout=lambda _data: ready.set())
        if not ready.wait(READY_SEC):
            msg = f"the way to the {self.name} could not be opened inside the sandbox (it needs python3 there)"
            raise SandboxError(msg)

    def remove(self) -> None:
        for file in (self.socket, self.mounted / FORWARDER):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.mounted.rmdir()
            self.folder.rmdir()


def _bind(listener: socket.socket, path: Path) -> None:
    """Bind, also where the path is longer than an address of a socket may be."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
