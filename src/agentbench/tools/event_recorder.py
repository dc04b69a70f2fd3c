"""Writes the events of a session, and passes each to the rule engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from pydantic import JsonValue

from agentbench.core.command import Stream
from agentbench.core.errors import RecordError
from agentbench.core.text import printable
from agentbench.policy.breakers import Trip
from agentbench.policy.limits import Limits
from agentbench.policy.rule_engine import RuleEngine, decision_events
from agentbench.trace.blobs import LIMIT, BlobStore
from agentbench.trace.blobs import excerpt as take_excerpt
from agentbench.trace.events import Actor, Excerpt, Intervention, MonitorAlert, Payload, ToolCallStarted
from agentbench.trace.json_safe import MAX_DEPTH
from agentbench.trace.log import EventLog

MAX_ARGUMENT = 4_000
MAX_ARGUMENTS = 50
_TOO_DEEP = f"[nested deeper than {MAX_DEPTH}]"


class EventRecorder:
    """The attempt's log, its blob store, and the rule engine that sees every event."""

    def __init__(self, log: EventLog, blobs: BlobStore | None = None, engine: RuleEngine | None = None) -> None:
        self._log = log
        self._blobs = blobs
        self.engine = engine or RuleEngine(Limits())
        self._trips: dict[int, tuple[Trip, ...]] = {}
        self._alerts: dict[int, int] = {}
        self._stop: int | None = None
        self.over = threading.Event()
        """Set with the decision to end the attempt, in the same step that logs it."""
        self._when_over: Callable[[], None] = lambda: None
        log.respond_with(self._attend)

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self._log.count

    def redact(self, text: str) -> str:
        """Return the text as the log has it."""
        redactor = self._log.redact
        return redactor.text(text) if redactor else text

    def write(self, payload: Payload, actor: Actor = "harness", *, original: Payload | None = None) -> int:
        """Write an event. `original` is the payload before the caller redacted it, if it did."""
        return self._log.append(payload, actor, original=original)

    def write_unless_over(self, payload: Payload, actor: Actor = "harness") -> int:
        """Write an event, but not after a decision to end the attempt. Returns 0 if it was not written."""
        return self._log.append(payload, actor, unless=self.over.is_set)

    def when_over(self, notify: Callable[[], None]) -> None:
        """Call `notify` when the attempt is ended, or now if it was. It may be called twice, and while the log is locked."""
        self._when_over = notify
        if self.over.is_set():
            notify()

    def trips(self, seq: int) -> tuple[Trip, ...]:
        """Return the rule engine's decisions about event `seq`, once."""
        return self._trips.pop(seq, ())

    def alert_of(self, trip: Trip) -> int:
        """Return the number of the alert that reports a decision."""
        if trip is self.engine.stop:
            return self._stop or 0
        return self._alerts.get(id(trip), 0)

    def _attend(self, seq: int, payload: Payload) -> Iterable[tuple[Payload, Actor]]:
        trips = self.engine.observe(seq, payload)
        if self.engine.over and not self.over.is_set():
            self.over.set()
            self._when_over()
        if not trips:
            return ()
        reactions = decision_events(seq, trips, self.engine.stage)
        numbers = (seq + i for i, (reaction, _) in enumerate(reactions, start=1) if isinstance(reaction, MonitorAlert))
        alerts = {id(trip): alert for trip, alert in zip(trips, numbers, strict=True)}
        if isinstance(payload, ToolCallStarted):
            # Only the decisions about the current call are asked for later. Events that a proxy or a gateway writes from
            # its own threads must not replace them.
            self._trips, self._alerts = {seq: trips}, alerts
        if self.engine.stop is not None and self._stop is None and self.engine.stop in trips:
            self._stop = alerts[id(self.engine.stop)]
        return reactions

    def excerpt(self, data: bytes | Stream, *, limit: int = LIMIT) -> Excerpt:
        """Return a bounded part of `data` with the digest of the whole, and store the whole as a blob."""
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
        """Log what a monitor found. Returns the number of the event, to which an intervention refers."""
        payload = MonitorAlert(
            monitor=monitor,
            severity=severity,
            rule=rule,
            detail=detail,
            evidence=[evidence] if evidence else [],
            signals=dict(signals or {}),
            stage=self.engine.stage,
        )
        return self.write(payload, "monitor")

    def intervene(self, action: Literal["deny", "rollback", "terminate"], alert: int, detail: str) -> None:
        """Log an intervention. An attempt is ended once: a second decision to end it is left out."""
        write = self.write_unless_over if action == "terminate" else self.write
        write(Intervention(action=action, alert=alert, detail=detail))

    def arguments(self, given: JsonValue) -> dict[str, JsonValue]:
        """Return the arguments of a call in a form the log can hold, whatever they are."""
        if not isinstance(given, dict):
            return {} if given is None else {"(not an object)": self._bounded(given)}
        kept = list(given.items())[:MAX_ARGUMENTS]
        return {printable(key[:80]): self._bounded(value) for key, value in kept}

    def _bounded(self, value: JsonValue) -> JsonValue:
        """Replace long text by an excerpt with its digest, and store the whole as a blob."""
        if isinstance(value, str) and len(value) > MAX_ARGUMENT:
            encoded = value.encode("utf-8", "backslashreplace")
            return self.excerpt(encoded, limit=MAX_ARGUMENT).model_dump(mode="json")
        if isinstance(value, (list, dict)) and len(text := _text(value)) > MAX_ARGUMENT:
            return self._bounded(text)
        return _without_floats(value)


def _text(value: JsonValue) -> str:
    try:
        return str(value)
    except RecursionError:
        return _TOO_DEEP


def _without_floats(value: JsonValue, depth: int = 0) -> JsonValue:
    """Replace floats by text, because a digest must not depend on how a float is printed."""
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
    """Return the text of a stored blob, or None if it cannot be read."""
    if blobs is None:
        return None
    try:
        return blobs.get(name).decode("utf-8", "replace")
    except RecordError:
        return None
