"""What ends a session, or holds it up: time, caps, breakers, a person who says no.

The guard decides by folding over the log; here its decisions, and those of the clock, are carried out and written down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from agentbench.core.errors import Interrupted, ToolFault
from agentbench.core.reasons import TerminationCode
from agentbench.policy.breakers import READING, WRITING, Trip
from agentbench.policy.budget import reached
from agentbench.policy.monitors import DENY_COMMANDS, PolicyMonitor
from agentbench.policy.prices import MICRO
from agentbench.policy.rule_engine import Guard
from agentbench.tools.event_recorder import EventRecorder, stored_text
from agentbench.tools.operator import ask
from agentbench.tools.result import ToolError
from agentbench.tools.rules import Rules
from agentbench.tools.session_end import SessionEnded
from agentbench.tools.session_parts import RemainingBudget, SessionEnvironment, SessionLog
from agentbench.trace.events import OperatorDecision

_TOO_SHORT = 0.01
"""Seconds in which nothing can be done: a command that was cut short by the wall clock ends this near to it."""


class SessionLimits:
    """Of one session. Everything that raises `SessionEnded` has written down why."""

    def __init__(
        self,
        rules: Rules,
        record: SessionLog,
        environment: SessionEnvironment,
        *,
        clock: Callable[[], float],
        cancelled: Callable[[], bool],
    ) -> None:
        self.guard = Guard(rules.limits, _monitor(rules, record))
        self.recorder = EventRecorder(record.log, record.blobs, self.guard)
        self.clock = clock
        self.sleep: Callable[[float], None] = time.sleep
        self.cancelled = cancelled
        self.operator = environment.operator
        self.ended: SessionEnded | None = None
        self.last_event = 0
        """Number of the event that ended the last call: what an end can point to."""
        self._rules = rules
        self._beyond = environment.beyond
        self._began = clock()
        self.paused = 0.0
        """Seconds in which a person was waited for."""

    def begin(self) -> None:
        """Start the clock."""
        self._began = self.clock()

    @property
    def remaining(self) -> RemainingBudget:
        budget, spent = self._rules.caps.budget, self.guard.spent
        cost = _left(budget.cost_micro_usd, spent.cost_micro(budget))
        return RemainingBudget(
            tool_calls=_left(budget.tool_calls, spent.tool_calls),
            wall_sec=max(self.time_left(), 0.0),
            tokens=_left(budget.tokens, spent.tokens),
            usd=None if cost is None else cost / MICRO,
        )

    def go_on(self) -> None:
        """An agent that had stopped is told more: only what else ended the session still holds."""
        if self.ended is not None and self.ended.code is TerminationCode.AGENT_STOPPED:
            self.ended = None

    def check_budget(self) -> None:
        """
        Raises:
            SessionEnded: nothing is left of a cap, or a breaker has tripped.
        """
        self.check_open()
        self.check_breakers()
        cap = reached(self.guard.spent, self._rules.caps.budget)
        if cap is not None:
            self.end_by_cap(cap.code, cap.rationale)
        shared = self._beyond()
        if shared is not None:
            self.end_by_cap(*shared, {"refused": 1, "shared": 1})

    def out_of_budget(self, code: TerminationCode, why: str, *, shared: bool) -> NoReturn:
        """
        Raises:
            SessionEnded: a request was refused for want of budget.
        """
        if self.ended is None:
            self.end_by_cap(code, why, {"refused": 1, "shared": int(shared)})
        raise self.ended

    def refuse(self, name: str, trips: tuple[Trip, ...]) -> None:
        """Carry out what the guard decided about this call before anything of it happens."""
        for trip in trips:
            if trip.action == "pause":
                self._ask_operator(trip)
            elif trip.action in {"deny", "quarantine", "terminate"}:
                why = (
                    f"the contract denies commands like '{trip.rule}'" if trip.monitor == DENY_COMMANDS else trip.detail
                )
                raise ToolFault(f"refused: {why}", kind=ToolError.COMMAND_DENIED)
        if name in READING:
            return
        if self.guard.quarantined is not None:
            why = f"the workspace is in quarantine since {self.guard.quarantined.rule}: only reading is left"
            raise ToolFault(why, kind=ToolError.QUARANTINED)
        if name in WRITING and self.guard.writes_suspended:
            reads = self._rules.thresholds.reads_to_restore
            why = f"too many patches were refused in a row: read what is there first ({reads} calls that read)"
            raise ToolFault(why, kind=ToolError.WRITE_SUSPENDED)

    def wait(self, trips: tuple[Trip, ...]) -> str:
        """Backpressure: wait as long as the guard says; what the agent is told about it."""
        waits = [trip for trip in trips if trip.action == "throttle"]
        if not waits:
            return ""
        seconds = min(max(trip.signals["wait_ms"] for trip in waits) / 1000, max(self.time_left(), 0.0))
        self.sleep(seconds)
        return f"backpressure: waited {seconds:g} s, {waits[0].detail}"

    def _ask_operator(self, trip: Trip) -> None:
        """Wait for a person. The wait is not the agent's time.

        Raises:
            SessionEnded: the person, or the deadline, says stop.
        """
        begin = self.clock()
        alert = self.recorder.alert_of(trip)
        answer = ask(self.operator, trip, alert, self._rules.thresholds.operator_deadline_sec)
        self.paused += self.clock() - begin
        decision = OperatorDecision(
            decision=answer.decision, operator=answer.operator, justification=answer.justification, alert=alert
        )
        said = self.recorder.write(decision, "operator")
        if answer.decision == "stop":
            why = f"{answer.operator}: {answer.justification}"
            raise self.finish(SessionEnded(TerminationCode.OPERATOR_ABORT, why, (alert, said)))

    def check_open(self) -> None:
        if self.ended is not None:
            raise self.ended
        if self.cancelled():
            raise Interrupted("interrupted")
        self.check_time()

    def check_time(self) -> None:
        if self.time_left() <= _TOO_SHORT:
            measured = {"elapsed_us": self.elapsed_us(), "cap_us": int(self._rules.caps.wall_sec * 1_000_000)}
            self.end_by_cap(TerminationCode.WALL_CAP, f"the time of {self._rules.caps.wall_sec:g} s is over", measured)

    def check_breakers(self) -> None:
        stop = self.guard.stop
        if stop is not None and stop.code is not None:
            evidence = (self.recorder.alert_of(stop), *stop.evidence)
            raise self.finish(SessionEnded(stop.code, stop.detail, evidence, rule=stop.rule))

    def end_by_cap(self, code: TerminationCode, why: str, measured: Mapping[str, int] | None = None) -> NoReturn:
        alert = self.recorder.alert(
            "budget", code, why, severity="terminate", evidence=self.last_event, signals=measured
        )
        self.recorder.intervene("terminate", alert, why)
        raise self.finish(SessionEnded(code, why, (alert, *self.pointer())))

    def finish(self, end: SessionEnded) -> SessionEnded:
        self.ended = self.ended or end
        return self.ended

    def pointer(self) -> tuple[int, ...]:
        return (self.last_event,) if self.last_event else ()

    def time_left(self) -> float:
        return self._rules.caps.wall_sec - self.elapsed()

    def elapsed(self) -> float:
        """Time of the session: without that in which a person was waited for."""
        return self.clock() - self._began - self.paused

    def elapsed_us(self) -> int:
        return max(int(self.elapsed() * 1_000_000), 0)


def _left(most: int | None, used: int) -> int | None:
    return None if most is None else max(most - used, 0)


def _monitor(rules: Rules, record: SessionLog) -> PolicyMonitor:
    redact = record.log.redact
    return PolicyMonitor(
        rules.contract,
        blobs=lambda name: stored_text(record.blobs, name),
        redact=redact.text if redact else lambda text: text,
    )
