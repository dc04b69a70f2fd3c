"""The guard of a run: every breaker and monitor, shown every event, and what they decide in the order of the log.

Live, the guard attends the attempt's log: what it decides is written right behind the event that made it decide, and the
session carries it out. Afterwards anybody shows the same events to another guard and gets the same decisions (`recheck`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from agentbench.core.reasons import TerminationCode
from agentbench.policy.backpressure import PRESSURE, Backpressure
from agentbench.policy.breakers import (
    BREAKER,
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
    World,
)
from agentbench.policy.budget import Budget, Spent
from agentbench.policy.thresholds import Thresholds, published_thresholds
from agentbench.trace.events import Actor, Briefing, Intervention, MonitorAlert, Payload, Termination

GUARDS = frozenset({BREAKER, PRESSURE})
"""Monitors whose every alert is a decision of a guard."""

Monitor = Callable[[int, Payload], tuple[Trip, ...]]
"""Looks at what is said or done in one event."""


BREAKERS: tuple[Callable[[], Breaker], ...] = (
    Backpressure,
    CommandCeiling,
    FailedWrites,
    RepeatedCalls,
    RepeatedInstalls,
    Oscillation,
    NoProgress,
    Dominance,
)
"""Every breaker, in the order in which they are asked. (`Violations` counts what monitors decide, and is asked with them.)"""


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a guard's decisions depend on besides the events. A manifest holds it, so that they can be made again."""

    budget: Budget = field(default_factory=Budget)
    wall_us: int | None = None
    thresholds: Thresholds = field(default_factory=published_thresholds)
    max_installs: int | None = None


class Guard:
    """A fold over the events of one attempt; active from the briefing to the termination."""

    def __init__(self, limits: Limits, monitor: Monitor = lambda _seq, _payload: ()) -> None:
        most = limits.max_installs
        self._world = World(
            limits.budget,
            limits.wall_us,
            limits.thresholds,
            limits.thresholds.dependency_events if most is None else most,
        )
        self._monitor = monitor
        self._violations = Violations()
        self._breakers: tuple[Breaker, ...] = tuple(make() for make in BREAKERS)
        self._writes = next(one for one in self._breakers if isinstance(one, FailedWrites))
        self._active = False
        self.quarantined: Trip | None = None
        """Set once something prohibited was tried: the agent may only read from then on."""
        self.stop: Trip | None = None
        """The first decision that ends the run."""

    @property
    def spent(self) -> Spent:
        return self._world.spent

    @property
    def stage(self) -> str | None:
        return self._world.stage

    @property
    def writes_suspended(self) -> bool:
        return self._writes.suspended

    def see(self, seq: int, payload: Payload) -> tuple[Trip, ...]:
        """Account for one event; what it makes necessary."""
        if isinstance(payload, Briefing):
            self._active = True
        elif isinstance(payload, Termination):
            self._active = False
        if not self._active or isinstance(payload, (MonitorAlert, Intervention)):
            return ()
        self._world.after(seq, payload)
        trips = self._monitor(seq, payload)
        repeated = self._violations.count(seq, trips, self._world) if trips else None
        trips += (repeated,) if repeated else ()
        for breaker in self._breakers:
            trip = breaker.see(seq, payload, self._world)
            trips += (trip,) if trip else ()
        for trip in trips:
            if trip.action == "quarantine" and self.quarantined is None:
                self.quarantined = trip
            if trip.action == "terminate" and self.stop is None:
                self.stop = trip
        return trips


def responses(seq: int, trips: Iterable[Trip], stage: str | None = None) -> tuple[tuple[Payload, Actor], ...]:
    """The events that tell of decisions made on event `seq`: they follow it at once, each alert with its intervention."""
    told: list[tuple[Payload, Actor]] = []
    for trip in trips:
        alert = seq + len(told) + 1
        told.append(
            (
                MonitorAlert(
                    monitor=trip.monitor,
                    severity=trip.severity,
                    rule=trip.rule,
                    detail=trip.detail,
                    format=trip.format,
                    evidence=list(trip.evidence),
                    signals=dict(trip.signals),
                    stage=stage,
                ),
                "monitor",
            )
        )
        if trip.action != "note":
            told.append((Intervention(action=trip.action, alert=alert, detail=done_about(trip)), "harness"))
    return tuple(told)


_DONE = {
    "throttle": "the call waits",
    "deny": "refused",
    "kill": "the command was killed",
    "pause": "the attempt waits for an operator",
    "quarantine": "the workspace is in quarantine: the agent may only read from now on",
    "terminate": "the run ends",
}


def done_about(trip: Trip) -> str:
    """The intervention in words."""
    return _DONE[trip.action] + (f" ({trip.code})" if trip.code else "")


def ends_by_guard(code: TerminationCode) -> bool:
    """Whether only a guard's decision can end a run like this."""
    return code in _BY_GUARD


_BY_GUARD = frozenset(
    {
        TerminationCode.REPEATED_CALLS,
        TerminationCode.REPEATED_INSTALLS,
        TerminationCode.OSCILLATION,
        TerminationCode.NO_PROGRESS,
        TerminationCode.DOMINANCE,
        TerminationCode.SAFETY,
    }
)
