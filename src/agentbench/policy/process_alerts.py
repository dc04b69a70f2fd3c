"""Limits the alerts about the processes of an agent program: one per rule and branch of processes, and a bounded number per rule.

`sh -c 'sudo x'` starts `sudo x`, which violates the same rule again. Both are one violation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import Trip
from agentbench.policy.monitor_rules import Action
from agentbench.policy.process_branches import ProcessBranches
from agentbench.trace.events import ProcessFinished, ProcessStarted

MAX_PER_RULE = 20
"""Alerts per rule and call. The rest is counted in one more alert when the call ends."""

_AFTER_START: dict[Action, Action] = {"deny": "note", "pause": "note", "quarantine": "terminate"}
"""A process that runs already cannot be denied or paused, and a program cannot be restricted to reading."""

_Rule = tuple[str, str]


class ProcessAlerts:
    """Follows the processes of one attempt in log order."""

    def __init__(self) -> None:
        self._reported: ProcessBranches[_Rule] = ProcessBranches()
        self._alerts: Counter[_Rule] = Counter()
        self._omitted: dict[_Rule, list[int]] = {}

    def started(self, seq: int, process: ProcessStarted, trips: tuple[Trip, ...]) -> tuple[Trip, ...]:
        """Return the decisions to report about a started process."""
        known = self._reported.started(process, ((trip.monitor, trip.rule) for trip in trips))
        return tuple(self._bounded(seq, (trip for trip in trips if (trip.monitor, trip.rule) not in known)))

    def finished(self, process: ProcessFinished) -> None:
        self._reported.finished(process)

    def call_finished(self) -> tuple[Trip, ...]:
        """Return one note for each rule whose alerts were not all reported, and start again."""
        notes = tuple(
            Trip(
                monitor,
                rule,
                "note",
                f"{len(omitted)} more violations of this rule are not reported individually",
                signals={"omitted": len(omitted)},
                evidence=(omitted[0], omitted[-1]),
                format="code",
            )
            for (monitor, rule), omitted in self._omitted.items()
        )
        self._alerts.clear()
        self._omitted.clear()
        return notes

    def _bounded(self, seq: int, trips: Iterator[Trip]) -> Iterator[Trip]:
        for trip in trips:
            key = (trip.monitor, trip.rule)
            self._alerts[key] += 1
            if self._alerts[key] > MAX_PER_RULE:
                self._omitted.setdefault(key, []).append(seq)
            else:
                yield _after_start(trip)


def _after_start(trip: Trip) -> Trip:
    action = _AFTER_START.get(trip.action, trip.action)
    code = TerminationCode.SAFETY if action == "terminate" else None
    return replace(trip, action=action, code=code)
