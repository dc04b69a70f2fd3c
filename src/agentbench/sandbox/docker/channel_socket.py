"""The socket through which a container's command server connects to the harness.

It is in a folder of its own that the container mounts read-only. The server is the first process of its container and
connects before anything else can run there; then the socket is removed, so that nothing started later finds it. Unlike
`docker exec`, it needs no docker process while the container lives.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.sandbox.socket_forward import short_path

SOCKET_NAME = "s"
_POLL_SEC = 0.2


class ChannelSocket:
    def __init__(self, folder: Path) -> None:
        """
        Raises:
            SandboxError: the folder cannot be written.
        """
        self.folder = folder
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            folder.mkdir(parents=True)
            with short_path(folder / SOCKET_NAME) as address:
                self._listener.bind(address)
            # The container's user is not the harness's. Only the harness's user can enter the folder around it.
            (folder / SOCKET_NAME).chmod(0o666)
            self._listener.listen(1)
        except OSError as error:
            self.close()
            raise SandboxError(f"cannot create the socket of a sandbox in {folder}: {error.strerror}") from error

    def accept(self, timeout_sec: float, stop: threading.Event) -> tuple[socket.socket, int] | None:
        """Return the connection and the process id of its peer (0 if not visible from here).

        None after the timeout, or when `stop` is set.
        """
        deadline = time.monotonic() + timeout_sec
        self._listener.settimeout(_POLL_SEC)
        channel = None
        while channel is None:
            try:
                channel, _ = self._listener.accept()
            except TimeoutError:
                if stop.is_set() or time.monotonic() >= deadline:
                    return None
            except OSError:
                return None
        channel.settimeout(None)
        pid, _, _ = struct.unpack("iII", channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return channel, pid

    def close(self) -> None:
        self._listener.close()
        with contextlib.suppress(OSError):
            (self.folder / SOCKET_NAME).unlink()

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.folder.rmdir()
