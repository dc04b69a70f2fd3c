"""Cancels a request that is waiting for the first byte of its response.

The HTTP library exposes no connection before there is a response, and a service may think for minutes without sending anything.
Therefore every connection registers itself with the request of the current thread whenever something is written to it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, cast

from agentbench.models.upstream import Cancel

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_current = threading.local()


class _Stream(Protocol):
    write: Callable[..., None]

    def get_extra_info(self, info: str) -> object: ...


class PendingRequest:
    """A request until the head of its response arrives. Cancelling breaks the connection it was sent on."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._released = False

    def register(self, connection: object) -> None:
        """
        Raises:
            OSError: the request was cancelled; nothing more may be sent.
        """
        with self._lock:
            if self._cancel:
                raise ConnectionAbortedError("the request was cancelled")
            self._socket = connection if isinstance(connection, socket.socket) else None

    def abort(self) -> None:
        with self._lock:
            if self._socket is not None and not self._released:
                break_connection(self._socket)

    def release(self) -> None:
        """Stop watching the connection: it now belongs to the response, and later to other requests."""
        with self._lock:
            self._socket, self._released = None, True


@contextlib.contextmanager
def cancellable(cancel: Cancel) -> Iterator[None]:
    """Let `cancel` abort, from any thread, what this thread sends inside the block."""
    pending = PendingRequest(cancel)
    _current.pending = pending
    cancel.on_cancel(pending.abort)
    try:
        yield
    finally:
        _current.pending = None
        pending.release()


def trace(name: str, info: Mapping[str, object]) -> None:
    """Hook into each new connection; for the extension `trace` of the HTTP library."""
    if name.endswith(_OPENED):
        stream = cast("_Stream", info["return_value"])
        stream.write = _registering(stream, stream.write)


def _registering(stream: _Stream, write: Callable[..., None]) -> Callable[..., None]:
    def register_and_write(buffer: bytes, timeout: float | None = None) -> None:
        pending = getattr(_current, "pending", None)
        if pending is not None:
            pending.register(stream.get_extra_info("socket"))
        write(buffer, timeout)

    return register_and_write


def break_connection(sock: socket.socket) -> None:
    """Shut down a connection that another thread reads from."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
