"""Model requests and responses as they go over the wire, and the `Upstream` protocol of everything that answers them.

Upstreams stack: the metered model (budget, events) wraps a translation, which wraps a service, a script or a recording. Our own
agents and programs behind the gateway use the same stack.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from types import TracebackType
from typing import Protocol, Self

from agentbench.core.dataclass import dataclass
from agentbench.models.client.endpoint import Dialect
from agentbench.models.json_values import JsonObject
from agentbench.models.sse import SseEvent


class Cancel:
    """Cancels a request. Hooks are called once, from the thread that cancels."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._hooks: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()
        with self._lock:
            hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook()

    def wait(self, seconds: float) -> bool:
        return self._event.wait(seconds)

    def on_cancel(self, hook: Callable[[], None]) -> None:
        with self._lock:
            if not self._event.is_set():
                self._hooks.append(hook)
                return
        hook()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request. `headers` are the client headers that may reach the service."""

    dialect: Dialect
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)
    cancel: Cancel = field(default_factory=Cancel)
    raw: bytes = b""
    """The body as the client sent it, before parameters were pinned or replaced. Empty if not kept."""
    on_outage: Callable[[float, float], None] = lambda _since, _until: None
    """Called before waiting for a service that is unavailable, with the time (monotonic) of the last try and of the next."""

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True


class ModelResponse:
    """A successful response: `body` if it is whole, `events` if it streams. Close it when done, or use `with`."""

    def __init__(
        self,
        body: JsonObject | None = None,
        events: Iterator[SseEvent] | None = None,
        *,
        raw: bytes = b"",
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.body = body if body is not None else {}
        self.events: Iterator[SseEvent] = events if events is not None else iter(())
        self.streams = events is not None
        self.raw = raw
        """The original bytes of the body, if they are known."""
        self._close = close

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Upstream(Protocol):
    """Answers model requests. Safe to use from several threads."""

    @property
    def dialects(self) -> frozenset[Dialect]:
        """The dialects it understands."""
        ...

    def send(self, request: ModelRequest) -> ModelResponse:
        """Send a request. With `stream` in the body the response streams, and may still fail while it does.

        Raises:
            ModelFault: no usable response.
        """
        ...
