"""How a session is written down: every event of it goes through here."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from agentbench.core.command import Stream
from agentbench.core.text import printable
from agentbench.policy.budget import Spent
from agentbench.trace.blobs import LIMIT, BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import (
    Actor,
    Excerpt,
    Intervention,
    MonitorAlert,
    Payload,
)
from agentbench.trace.log import EventLog

MAX_ARGUMENT = 4_000
MAX_ARGUMENTS = 50


class Journal:
    """The attempt's log, and the store for what is too large for it."""

    def __init__(self, log: EventLog, blobs: BlobStore | None = None) -> None:
        self._log = log
        self._blobs = blobs
        self.spent = Spent()
        """What the events written so far have used of the budget."""

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self._log.count

    def write(self, payload: Payload, actor: Actor = "harness") -> int:
        self.spent = self.spent.after(payload)
        return self._log.append(payload, actor)

    def excerpt(self, data: bytes | Stream, *, limit: int = LIMIT) -> Excerpt:
        """A bounded part of `data` with the digest of the whole, which is stored as a blob."""
        return take_excerpt(data, store=self._blobs, limit=limit)

    def alert(
        self,
        monitor: str,
        rule: str,
        detail: str,
        *,
        severity: Literal["note", "penalty", "gate", "terminate"] = "note",
        evidence: int = 0,
        code: bool = False,
    ) -> int:
        """Something a monitor saw; its number, which an intervention points to."""
        payload = MonitorAlert(
            monitor=monitor,
            severity=severity,
            rule=rule,
            detail=detail,
            format="code" if code else "none",
            evidence=[evidence] if evidence else [],
        )
        return self.write(payload, "monitor")

    def intervene(self, action: Literal["deny", "terminate"], alert: int, detail: str) -> None:
        self.write(Intervention(action=action, alert=alert, detail=detail))

    def arguments(self, given: JsonValue) -> dict[str, JsonValue]:
        """Arguments of a call as the log keeps them, whatever they are."""
        if not isinstance(given, dict):
            return {} if given is None else {"(not an object)": self._bounded(given)}
        kept = list(given.items())[:MAX_ARGUMENTS]
        return {printable(key[:80]): self._bounded(value) for key, value in kept}

    def _bounded(self, value: JsonValue) -> JsonValue:
        """Long text becomes an excerpt with its digest, the whole in a blob."""
        if isinstance(value, str) and len(value) > MAX_ARGUMENT:
            whole = value.encode("utf-8", "backslashreplace")
            return self.excerpt(whole, limit=MAX_ARGUMENT).model_dump(mode="json")
        if isinstance(value, (list, dict)) and len(text := str(value)) > MAX_ARGUMENT:
            return self._bounded(text)
        return _without_floats(value)


def _without_floats(value: JsonValue) -> JsonValue:
    """Events hold no floats: a digest must not hang on how one is written."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return [_without_floats(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _without_floats(inner) for key, inner in value.items()}
    return value
