"""How a session is written down: every event of it goes through here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import JsonValue

from agentbench.core.command import Stream
from agentbench.core.errors import RecordError
from agentbench.core.text import printable
from agentbench.policy.breakers import Trip
from agentbench.policy.rule_engine import Guard, Limits, responses
from agentbench.trace.blobs import LIMIT, BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import (
    Actor,
    Excerpt,
    Intervention,
    MonitorAlert,
    Payload,
    ToolCallStarted,
)
from agentbench.trace.json_safe import MAX_DEPTH
from agentbench.trace.log import EventLog

MAX_ARGUMENT = 4_000
MAX_ARGUMENTS = 50
_TOO_DEEP = f"[nested deeper than {MAX_DEPTH}]"


class EventRecorder:
    """The attempt's log, the store for what is too large for it, and the guard who is told of every event."""

    def __init__(self, log: EventLog, blobs: BlobStore | None = None, guard: Guard | None = None) -> None:
        self._log = log
        self._blobs = blobs
        self.guard = guard or Guard(Limits())
        self._trips: dict[int, tuple[Trip, ...]] = {}
        self._alerts: dict[int, int] = {}
        self._stop: int | None = None
        log.attend(self._attend)

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self._log.count

    def write(self, payload: Payload, actor: Actor = "harness") -> int:
        return self._log.append(payload, actor)

    def trips(self, seq: int) -> tuple[Trip, ...]:
        """What the guard decided on event `seq`, told once."""
        return self._trips.pop(seq, ())

    def alert_of(self, trip: Trip) -> int:
        """Number of the alert that tells of a decision."""
        if trip is self.guard.stop:
            return self._stop or 0
        return self._alerts.get(id(trip), 0)

    def _attend(self, seq: int, payload: Payload) -> Iterable[tuple[Payload, Actor]]:
        trips = self.guard.see(seq, payload)
        if not trips:
            return ()
        told = responses(seq, trips, self.guard.stage)
        numbers = (seq + at for at, (one, _) in enumerate(told, start=1) if isinstance(one, MonitorAlert))
        alerts = {id(trip): alert for trip, alert in zip(trips, numbers, strict=True)}
        if isinstance(payload, ToolCallStarted):
            # Only decisions that somebody still asks about are kept: those of the call, while what else happens
            # (a proxy or a gateway writes from threads of its own) is decided beside it.
            self._trips, self._alerts = {seq: trips}, alerts
        if self.guard.stop is not None and self._stop is None and self.guard.stop in trips:
            self._stop = alerts[id(self.guard.stop)]
        return told

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
        signals: Mapping[str, int] | None = None,
    ) -> int:
        """Something a monitor saw; its number, which an intervention points to."""
        payload = MonitorAlert(
            monitor=monitor,
            severity=severity,
            rule=rule,
            detail=detail,
            evidence=[evidence] if evidence else [],
            signals=dict(signals or {}),
            stage=self.guard.stage,
        )
        return self.write(payload, "monitor")

    def intervene(self, action: Literal["deny", "rollback", "terminate"], alert: int, detail: str) -> None:
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
        if isinstance(value, (list, dict)) and len(text := _text(value)) > MAX_ARGUMENT:
            return self._bounded(text)
        return _without_floats(value)


def _text(value: JsonValue) -> str:
    try:
        return str(value)
    except RecursionError:
        return _TOO_DEEP


def _without_floats(value: JsonValue, depth: int = 0) -> JsonValue:
    """Events hold no floats: a digest must not hang on how one is written."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (list, dict)) and depth >= MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, list):
        return [_without_floats(inner, depth + 1) for inner in value]
    if isinstance(value, dict):
        return {key: _without_floats(inner, depth + 1) for key, inner in value.items()}
    return value


def stored_text(blobs: BlobStore | None, name: str) -> str | None:
    """The text of a stored blob; None when it cannot be had."""
    if blobs is None:
        return None
    try:
        return blobs.get(name).decode("utf-8", "replace")
    except RecordError:
        return None
