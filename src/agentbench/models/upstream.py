"""One request to a model and its answer, as they are on the wire; and what every source of answers offers.

Sources stack: the metered_model (budget, events) around a translation around a service, a script or a recording. All of them are an
`Upstream`, so an agent of ours and a program behind the gateway go the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from pydantic import JsonValue

from agentbench.models.client.endpoint import Dialect
from agentbench.models.sse import SseEvent

JsonObject = dict[str, JsonValue]


class Cancel:
    """Tells a request that nobody waits for it any more. `hooks` are called once, from the thread that cancels."""

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
    """A request. `headers` are those of the client that may reach the service."""

    dialect: Dialect
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)
    cancel: Cancel = field(default_factory=Cancel)
    raw: bytes = b""
    """The body as the client sent it, before anything was pinned or replaced in it; empty where nobody kept it."""

    @property
    def stream(self) -> bool:
        return self.body.get("stream") is True


class ModelResponse:
    """A good answer: `body` when it came as one, else `events` as they come. Close it when done, or use `with`."""

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
        """The body's bytes where they are at hand and must be kept as they are."""
        self._close = close

    def close(self) -> None:
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class Upstream(Protocol):
    """A source of answers. Safe to use from several threads."""

    @property
    def dialects(self) -> frozenset[Dialect]:
        """What it can be asked in."""
        ...

    def send(self, request: ModelRequest) -> ModelResponse:
        """Ask. With `stream` in the body the answer streams, and may still fail while it does.

        Raises:
            ModelFault: no usable answer.
        """
        ...
