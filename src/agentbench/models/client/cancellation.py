"""Breaking off a request that waits for the first byte of its answer.

Until there is an answer the HTTP library shows no connection, and a service that thinks for minutes sends nothing. So every
connection says, whenever something is written to it, which request of this thread it serves: that is what can be broken.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, cast

from agentbench.models.upstream import Cancel

_OPENED = ("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")
_at_work = threading.local()


class _Stream(Protocol):
    write: Callable[..., None]

    def get_extra_info(self, info: str) -> object: ...


class PendingRequest:
    """One request until the head of its answer is there. `cancel` breaks the connection it went out on."""

    def __init__(self, cancel: Cancel) -> None:
        self._cancel = cancel
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self._over = False

    def hold(self, held: object) -> None:
        """
        Raises:
            OSError: nobody waits any more; nothing more is sent.
        """
        with self._lock:
            if self._cancel:
                msg = "nobody waits for the answer"
                raise ConnectionAbortedError(msg)
            self._held = held if isinstance(held, socket.socket) else None

    def abort(self) -> None:
        with self._lock:
            if self._held is not None and not self._over:
                break_off(self._held)

    def release(self) -> None:
        """From now on the connection is the answer's, and after it somebody else's."""
        with self._lock:
            self._held, self._over = None, True


@contextlib.contextmanager
def breakable(cancel: Cancel) -> Iterator[None]:
    """What this thread sends inside may be broken off by `cancel`, from any thread."""
    waiting = PendingRequest(cancel)
    _at_work.waiting = waiting
    cancel.on_cancel(waiting.abort)
    try:
        yield
    finally:
        _at_work.waiting = None
        waiting.release()


def trace(name: str, info: Mapping[str, object]) -> None:
    """The HTTP library's account of a request, for its extension `trace`: every new connection passes here once."""
    if name.endswith(_OPENED):
        stream = cast("_Stream", info["return_value"])
        stream.write = _telling(stream, stream.write)


def _telling(stream: _Stream, write: Callable[..., None]) -> Callable[..., None]:
    def told(buffer: bytes, timeout: float | None = None) -> None:
        waiting = getattr(_at_work, "waiting", None)
        if waiting is not None:
            waiting.hold(stream.get_extra_info("socket"))
        write(buffer, timeout)

    return told


def break_off(held: socket.socket) -> None:
    """End a connection that another thread reads from."""
    with contextlib.suppress(OSError):
        held.shutdown(socket.SHUT_RDWR)
