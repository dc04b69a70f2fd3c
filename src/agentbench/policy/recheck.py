"""Every decision of a guard made again from the log, and held against what the log says was decided.

Both ways: what was decided must be what the events give, and what the events give must have been decided.

A decision is its codes, rules, severities, signals and evidence. The words that explain it (`detail`) are not compared: they
may be reworded between versions, and a run recorded by an older version must still verify. Changed words in a log are found by
its hash chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from agentbench.core.reasons import TerminationCode
from agentbench.policy.budget import reached
from agentbench.policy.rule_engine import Guard, Limits, Monitor, ends_by_guard, responses
from agentbench.trace.events import Actor, Briefing, Intervention, MonitorAlert, Payload, Termination, ToolCallStarted

BUDGET = "budget"
CLOCK_SLACK_US = 20_000
"""A session ends a little before its last moment: in what is left nothing can be done."""

_CUT_SHORT = frozenset({TerminationCode.INTERRUPTED, TerminationCode.SANDBOX_ERROR, TerminationCode.OPERATOR_ABORT})
"""Ends that may come between a decision and its being carried out."""


class EventLike(Protocol):
    @property
    def seq(self) -> int: ...

    @property
    def payload(self) -> Payload: ...


def recheck(
    events: Iterable[EventLike],
    limits: Limits,
    monitor: Monitor = lambda _seq, _payload: (),
    guards: frozenset[str] = frozenset(),
) -> list[str]:
    """Where the log and its own events disagree; empty when every decision is confirmed.

    `guards` are the monitors whose alerts must all come out again; alerts of others are nobody's decision here.
    """
    work = _Recheck(limits, monitor, guards)
    for event in events:
        work.see(event.seq, event.payload)
    return work.problems


class _Recheck:
    def __init__(self, limits: Limits, monitor: Monitor, guards: frozenset[str]) -> None:
        self.problems: list[str] = []
        self._limits = limits
        self._guards = guards
        self._guard = Guard(limits, monitor)
        self._due: deque[tuple[Payload, Actor]] = deque()
        self._decided: set[int] = set()
        """Alerts that this guard made too."""
        self._briefed = False

    def see(self, seq: int, payload: Payload) -> None:
        if isinstance(payload, Briefing):
            self._briefed = True
        if not self._briefed:
            return
        if self._due:
            self._expect(seq, payload)
            return
        match payload:
            case MonitorAlert() if payload.monitor in self._guards:
                self._wrong(seq, f"{payload.monitor} {payload.rule}: no event gives this decision")
            case MonitorAlert() if payload.monitor == BUDGET:
                self._cap(seq, payload)
            case ToolCallStarted() if payload.call_id.startswith("c"):
                self._within_caps(seq)
            case Termination():
                self._ending(seq, payload)
                self._briefed = False
            case _:
                pass
        self._due.extend(responses(seq, self._guard.see(seq, payload), self._guard.stage))

    def _expect(self, seq: int, payload: Payload) -> None:
        wanted, _ = self._due.popleft()
        if _decision(payload) == _decision(wanted):
            return
        if isinstance(payload, Termination) and payload.code in _CUT_SHORT:
            # The process died between an event and what had to follow it.
            self._due.clear()
            self._briefed = False
            return
        what = f"{wanted.monitor} {wanted.rule}" if isinstance(wanted, MonitorAlert) else wanted.type
        self._wrong(seq, f"expected the decision {what}, found {_named(payload)}")
        self._due.clear()

    def _cap(self, seq: int, alert: MonitorAlert) -> None:
        if alert.rule == TerminationCode.WALL_CAP:
            elapsed, cap = alert.signals.get("elapsed_us", -1), alert.signals.get("cap_us", -1)
            if cap != self._limits.wall_us or elapsed + CLOCK_SLACK_US < cap:
                self._wrong(seq, f"the wall clock stood at {elapsed} of {self._limits.wall_us} microseconds")
            return
        if alert.signals.get("refused"):
            # The ledger also counts what is in flight, and what other attempts spend of a shared cap.
            own = self._limits.budget
            capped = {"cost_cap": own.cost_micro_usd, "token_cap": own.tokens}.get(alert.rule)
            if capped is None and not alert.signals.get("shared"):
                self._wrong(seq, f"budget {alert.rule}: the attempt has no such cap")
            return
        found = reached(self._guard.spent, self._limits.budget)
        if found is None or found.code != alert.rule:
            self._wrong(seq, f"budget {alert.rule}: computed again, {found.code if found else 'no cap'} is reached")

    def _within_caps(self, seq: int) -> None:
        found = reached(self._guard.spent, self._limits.budget)
        if found is not None:
            self._wrong(seq, f"a tool call although {found.code} was reached: {found.rationale}")
        elif self._guard.stop is not None:
            self._wrong(seq, f"a tool call although {self._guard.stop.rule} had ended the run")

    def _ending(self, seq: int, ending: Termination) -> None:
        stop = self._guard.stop
        if ending.code in _CUT_SHORT:
            return
        if stop is not None and ending.code != stop.code:
            self._wrong(seq, f"the run ended as {ending.code}, and {stop.rule} had ended it as {stop.code}")
        if stop is None and ends_by_guard(ending.code):
            self._wrong(seq, f"the run ended as {ending.code}, and no event gives that decision")

    def _wrong(self, seq: int, message: str) -> None:
        self.problems.append(f"event {seq}: {message}")


def _decision(payload: Payload) -> dict[str, object]:
    """The fields of an event that decide something, without the words that explain it."""
    return {"type": payload.type, **payload.model_dump(exclude={"detail"})}


def _named(payload: Payload) -> str:
    match payload:
        case MonitorAlert():
            return f"{payload.monitor} {payload.rule}"
        case Intervention():
            return f"intervention {payload.action}"
        case _:
            return payload.type
