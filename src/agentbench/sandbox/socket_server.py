"""A server on a unix socket that programs in a sandbox reach through a forwarded port."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.sandbox.socket_forward import SocketForward

_JOIN_SEC = 5.0


class SocketServer(ABC):
    """Accepts connections on one thread and serves each on its own. `folder` is created, and used by nothing else.

    Serving starts in `__init__`, so a subclass sets its own attributes first.
    """

    def __init__(self, folder: Path, name: str, port: int, max_connections: int) -> None:
        self.forward = SocketForward(folder, name, port)
        self.closed = False
        self._max_connections = max_connections
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, list[socket.socket]] = {}
        self._listener = self.forward.listen(max_connections)
        self._thread = threading.Thread(target=self._accept, name=f"{name}-accept", daemon=True)
        self._thread.start()

    @abstractmethod
    def serve(self, client: socket.socket) -> None:
        """Serve one connection, which is closed afterwards. An OSError ends it silently."""

    @abstractmethod
    def reject(self, client: socket.socket) -> None:
        """Handle a connection above the limit, which is closed afterwards."""

    def register(self, sock: socket.socket) -> bool:
        """Close another socket with the connection that this thread serves. Returns False if the server is closed already."""
        with self._lock:
            if not self.closed:
                self._open[threading.current_thread()].append(sock)
            return not self.closed

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            open_connections = dict(self._open)
            for sock in (self._listener, *(sock for sockets in open_connections.values() for sock in sockets)):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        deadline = time.monotonic() + _JOIN_SEC
        for thread in (self._thread, *open_connections):
            thread.join(max(deadline - time.monotonic(), 0.01))
        self.forward.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self.closed:
                    return
                time.sleep(0.05)  # probably out of file descriptors: others will be released
                continue
            if not self._start(client):
                with contextlib.suppress(OSError):
                    self.reject(client)
                client.close()

    def _start(self, client: socket.socket) -> bool:
        thread = threading.Thread(target=self._serve, args=(client,), name=f"{self.forward.name}-client", daemon=True)
        with self._lock:
            if self.closed or len(self._open) >= self._max_connections:
                return False
            self._open[thread] = [client]
        try:
            thread.start()
        except RuntimeError:  # cannot start a thread: reject this connection, the next may work
            with self._lock:
                self._open.pop(thread, None)
            return False
        return True

    def _serve(self, client: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError):
                self.serve(client)
        finally:
            with self._lock:
                sockets = self._open.pop(threading.current_thread(), [])
            for sock in (client, *sockets):
                sock.close()
