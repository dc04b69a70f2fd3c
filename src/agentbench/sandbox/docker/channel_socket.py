"""The socket over which a container's server reaches the harness: in a folder of its own that the container sees read-only.

The server is the first process of its container and connects before anything else can run there; then the socket is taken
away, so that nothing started later finds one. It costs no process of docker's for as long as the container lives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

from agentbench.core.errors import SandboxError

NAME = "s"


class Link:
    def __init__(self, folder: Path) -> None:
        """
        Raises:
            SandboxError: the folder cannot be written.
        """
        self.folder = folder
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(parents=True)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # A socket's path has room for 108 bytes; the state folder may be deeper than that.
                self._listener.bind(f"/proc/self/fd/{fd}/{NAME}")
            finally:
                os.close(fd)
            # The container's user is another one than ours; the owner's folder around it is for nobody else.
            (folder / NAME).chmod(0o666)
            self._listener.listen(1)
        except OSError as error:
            self.close()
            raise SandboxError(f"a sandbox's socket cannot be made in {folder}: {error.strerror}") from error

    def accept(self, timeout_sec: float) -> tuple[socket.socket, int] | None:
        """The connection and the process id of who made it (0 when it cannot be seen from here); None: nobody came."""
        self._listener.settimeout(timeout_sec)
        try:
            channel, _ = self._listener.accept()
        except OSError:
            return None
        channel.settimeout(None)
        pid, _, _ = struct.unpack("iII", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return channel, pid

    def close(self) -> None:
        self._listener.close()
        with contextlib.suppress(OSError):
            (self.folder / NAME).unlink()

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.folder.rmdir()
