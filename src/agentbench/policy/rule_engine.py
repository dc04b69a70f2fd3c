"""The rule engine: passes every event of an attempt to all breakers and monitors and collects their decisions.

While an attempt runs, each decision is logged directly after the event that caused it, and the session carries it out.
`recheck` feeds the same events to a new engine and must get the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import (
    BACKPRESSURE,
    BREAKER,
    AttemptState,
    Backpressure,
    Breaker,
    CommandCeiling,
    Dominance,
    FailedWrites,
    NoProgress,
    Oscillation,
    RepeatedCalls,
    RepeatedInstalls,
    Trip,
    Violations,
)
from agentbench.policy.budget import Spent
from agentbench.policy.limits import Limits
from agentbench.trace.events import Actor, Briefing, Intervention, MonitorAlert, Payload, Termination

ENGINE_MONITORS = frozenset({BREAKER, BACKPRESSURE})
"""Values of `MonitorAlert.monitor` that only the rule engine writes."""

Monitor = Callable[[int, Payload], tuple[Trip, ...]]
"""Returns the violations in one event."""


BREAKERS: tuple[type[Breaker], ...] = (
    Backpressure, CommandCeiling, FailedWrites, RepeatedCalls, RepeatedInstalls, Oscillation, NoProgress, Dominance,
)  # fmt: skip
"""Every breaker, in the order they are asked. `Violations` is separate: it counts the monitors' decisions."""


class RuleEngine:
    """Evaluates all rules over the events of one attempt; active from the briefing to the termination."""

    def __init__(self, limits: Limits, monitor: Monitor = lambda _seq, _payload: ()) -> None:
        max_installs = limits.max_installs
        self._state = AttemptState(
            limits.budget,
            limits.wall_us,
            limits.thresholds,
            limits.thresholds.dependency_events if max_installs is None else max_installs,
            limits.not_applicable,
            limits.cost,
        )
        self._stops_enforced = limits.stops_enforced
        self._monitor = monitor
        self._violations = Violations()
        self._writes = FailedWrites()
        self._breakers: tuple[Breaker, ...] = tuple(
            self._writes if make is FailedWrites else make()
            for make in BREAKERS
            if not limits.not_applicable.issuperset(make.rules)
        )
        self._active = False
        self.over = False
        """The attempt was ended by a rule or by a cap."""
        self.quarantined: Trip | None = None
        """The violation that put the workspace in quarantine. From then on the agent may only read."""
        self.stop: Trip | None = None
        """The first decision that ends the attempt."""

    @property
    def spent(self) -> Spent:
        return self._state.spent

    @property
    def stage(self) -> str | None:
        return self._state.stage

    @property
    def writes_suspended(self) -> bool:
        return self._writes.suspended

    def observe(self, seq: int, payload: Payload) -> tuple[Trip, ...]:
        """Process one event and return the rules it triggers."""
        if isinstance(payload, Briefing):
            self._active = True
        elif isinstance(payload, Termination):
            self._active = False
        if isinstance(payload, Intervention) and payload.action == "terminate":
            self.over = self._stops_enforced
        if not self._active or isinstance(payload, (MonitorAlert, Intervention)):
            return ()
        self._state.update(seq, payload)
        trips = self._monitor(seq, payload)
        too_many = self._violations.count(seq, trips, self._state) if trips else None
        trips += (too_many,) if too_many else ()
        for breaker in self._breakers:
            trip = breaker.observe(seq, payload, self._state)
            trips += (trip,) if trip else ()
        return tuple(decided for trip in trips if (decided := self._decide(trip)) is not None)

    def _decide(self, trip: Trip) -> Trip | None:
        """Return the decision to log. Once the attempt is ended, breakers decide nothing and monitors only report."""
        if self.over:
            if trip.monitor in ENGINE_MONITORS:
                return None
            severity = "gate" if trip.severity == "terminate" else trip.severity
            return replace(trip, action="note", severity=severity, code=None)
        if trip.action == "quarantine" and self.quarantined is None:
            self.quarantined = trip
        if trip.action == "terminate":
            self.stop = self.stop or trip
            self.over = self._stops_enforced
        return trip


def decision_events(seq: int, trips: Iterable[Trip], stage: str | None = None) -> tuple[tuple[Payload, Actor], ...]:
    """Return the events that record decisions on event `seq`. They follow it directly, each alert with its intervention."""
    events: list[tuple[Payload, Actor]] = []
    for trip in trips:
        alert = MonitorAlert(
            monitor=trip.monitor,
            severity=trip.severity,
            rule=trip.rule,
            detail=trip.detail,
            format=trip.format,
            evidence=list(trip.evidence),
            signals=dict(trip.signals),
            stage=stage,
        )
        events.append((alert, "monitor"))
        if trip.action != "note":
            code = f" ({trip.code})" if trip.code else ""
            detail = _INTERVENTIONS[trip.action] + code
            events.append((Intervention(action=trip.action, alert=seq + len(events), detail=detail), "harness"))
    return tuple(events)


_INTERVENTIONS = {
    "throttle": "the call is delayed",
    "deny": "denied",
    "kill": "the command was killed",
    "pause": "the attempt waits for an operator",
    "quarantine": "the workspace is in quarantine: the agent may only read",
    "terminate": "the attempt ends",
}


ENDS_BY_RULE = frozenset(
    {
        TerminationCode.REPEATED_CALLS,
        TerminationCode.REPEATED_INSTALLS,
        TerminationCode.OSCILLATION,
        TerminationCode.NO_PROGRESS,
        TerminationCode.DOMINANCE,
        TerminationCode.SAFETY,
    }
)
"""Codes with which only the rule engine ends an attempt."""
