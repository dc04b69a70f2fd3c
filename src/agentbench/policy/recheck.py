"""Recomputes every decision of the rule engine from a log and compares it with the logged decision.

The comparison goes both ways: logged decisions must follow from the events, and decisions that follow must be logged.

A decision consists of codes, rules, severities, signals and evidence. Its explanation (`detail`) is not compared, because
wording may change between versions and older runs must still verify. The hash chain detects edited explanations.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.policy.budget import reached_cap
from agentbench.policy.host_trouble import host_troubles
from agentbench.policy.limits import Limits
from agentbench.policy.resource_alerts import CUT_SHORT, OBSERVING_MONITORS, MissingAlerts, alert_problem
from agentbench.policy.rule_engine import ENDS_BY_RULE, Monitor, RuleEngine, decision_events
from agentbench.trace.events import (
    AcceptanceCheck,
    Actor,
    Briefing,
    EventLike,
    Intervention,
    MonitorAlert,
    Payload,
    ResourceSample,
    SandboxLost,
    Termination,
    ToolCallStarted,
)

BUDGET = "budget"
CLOCK_SLACK_US = 20_000
"""A session may end this much before its time limit, because nothing could be done in the rest."""


def recheck(
    events: Iterable[EventLike],
    limits: Limits,
    monitor: Monitor = lambda _seq, _payload: (),
    engine_monitors: frozenset[str] = frozenset(),
) -> list[str]:
    """Return where the logged decisions differ from the recomputed ones.

    Every alert of `engine_monitors` must be reproduced; alerts of other monitors are not decisions of the rule engine.
    """
    recheck = _Recheck(limits, monitor, engine_monitors)
    for event in events:
        recheck.observe(event.seq, event.payload)
    recheck.finish()
    return recheck.problems


class _Recheck:
    def __init__(self, limits: Limits, monitor: Monitor, engine_monitors: frozenset[str]) -> None:
        self.problems: list[str] = []
        self._limits = limits
        self._engine_monitors = engine_monitors
        self._engine = RuleEngine(limits, monitor)
        self._due: deque[tuple[Payload, Actor]] = deque()
        self._briefed = False
        self._samples: dict[int, ResourceSample] = {}
        self._missing = MissingAlerts()
        self._losses = _LostSandboxes()

    def finish(self) -> None:
        for seq, problem in self._missing.problems():
            self._report(seq, problem)

    def observe(self, seq: int, payload: Payload) -> None:
        self._missing.observe(seq, payload)
        problem = self._losses.problem(payload)
        if problem is not None:
            self._report(seq, problem)
        if isinstance(payload, ResourceSample):
            self._samples[seq] = payload
        elif isinstance(payload, MonitorAlert) and payload.monitor in OBSERVING_MONITORS:
            problem = alert_problem(payload, self._samples)
            if problem is not None:
                self._report(seq, problem)
        if isinstance(payload, Briefing):
            self._briefed = True
        if not self._briefed:
            return
        if self._due:
            self._expect(seq, payload)
            return
        match payload:
            case MonitorAlert() if payload.monitor in self._engine_monitors:
                self._report(seq, f"{payload.monitor} {payload.rule}: this decision does not follow from the events")
            case MonitorAlert() if payload.monitor == BUDGET:
                self._check_cap(seq, payload)
            case ToolCallStarted() if payload.by_agent:
                self._check_within_caps(seq)
            case Termination():
                self._check_termination(seq, payload)
                self._briefed = False
            case _:
                pass
        self._due.extend(decision_events(seq, self._engine.observe(seq, payload), self._engine.stage))

    def _expect(self, seq: int, payload: Payload) -> None:
        wanted, _ = self._due.popleft()
        if _decision(payload) == _decision(wanted):
            return
        if isinstance(payload, Termination) and self._cut_short(payload):
            # The process died between an event and the decision that had to follow it.
            self._due.clear()
            self._briefed = False
            return
        expected = f"{wanted.monitor} {wanted.rule}" if isinstance(wanted, MonitorAlert) else wanted.type
        self._report(seq, f"expected the decision {expected}, found {_named(payload)}")
        self._due.clear()

    def _check_cap(self, seq: int, alert: MonitorAlert) -> None:
        if alert.rule == TerminationCode.WALL_CAP:
            elapsed, cap = alert.signals.get("elapsed_us", -1), alert.signals.get("cap_us", -1)
            if cap != self._limits.wall_us or elapsed + CLOCK_SLACK_US < cap:
                self._report(seq, f"wall_cap alert at {elapsed} of {self._limits.wall_us} microseconds")
            return
        if alert.signals.get("refused"):
            # The ledger also counts requests in flight and what other attempts spend of a shared cap.
            budget = self._limits.budget
            capped = {"cost_cap": budget.cost_micro_usd, "token_cap": budget.tokens}.get(alert.rule)
            if capped is None and not alert.signals.get("shared"):
                self._report(seq, f"budget {alert.rule}: the attempt has no such cap")
            return
        reached = reached_cap(self._engine.spent, self._limits.budget, self._limits.not_applicable)
        if reached is None or reached.code != alert.rule:
            self._report(seq, f"budget {alert.rule}: recomputed as {reached.code if reached else 'no reached cap'}")

    def _check_within_caps(self, seq: int) -> None:
        cap = reached_cap(self._engine.spent, self._limits.budget, self._limits.not_applicable)
        if cap is not None:
            self._report(seq, f"tool call after {cap.code} was reached: {cap.rationale}")
        elif self._engine.stop is not None:
            self._report(seq, f"tool call after {self._engine.stop.rule} ended the attempt")

    def _check_termination(self, seq: int, termination: Termination) -> None:
        stop = self._engine.stop
        if self._cut_short(termination):
            return
        if stop is not None and termination.code != stop.code:
            self._report(seq, f"the attempt ended as {termination.code}, but {stop.rule} ended it as {stop.code}")
        if stop is None and termination.code in ENDS_BY_RULE:
            self._report(seq, f"the attempt ended as {termination.code}, which does not follow from the events")

    def _cut_short(self, termination: Termination) -> bool:
        """Return whether the attempt may end like this at any time."""
        broken = termination.code is TerminationCode.SAFETY and self._losses.agent == "candidate"
        return broken or termination.code in CUT_SHORT

    def _report(self, seq: int, message: str) -> None:
        self.problems.append(f"event {seq}: {message}")


class _LostSandboxes:
    """Recomputes who is to blame for lost sandboxes, and compares what follows from it."""

    def __init__(self) -> None:
        self.agent = ""
        """Who is to blame for the loss of the agent's sandbox; empty if it was not lost."""
        self._broken_by_candidate = False

    def problem(self, payload: Payload) -> str | None:
        """Return how an event differs from what the lost sandboxes before it require."""
        match payload:
            case SandboxLost():
                blame = "host" if host_troubles(payload.host) else "candidate"
                if payload.phase == "agent":
                    self.agent = blame
                else:
                    self._broken_by_candidate |= blame == "candidate"
                if payload.blame != blame:
                    return f"blame for the lost sandbox is {payload.blame}, recomputed as {blame}"
            case Termination(code=TerminationCode.SANDBOX_ERROR) if self.agent == "candidate":
                return "the attempt ended as sandbox_error, but the host explains no loss of the agent's sandbox"
            case AcceptanceCheck():
                broken, self._broken_by_candidate = self._broken_by_candidate, False
                if broken and payload.outcome is not Outcome.FAIL:
                    return f"check {payload.check_id} is {payload.outcome}, but the candidate broke its sandbox"
            case _:
                pass
        return None


def _decision(payload: Payload) -> dict[str, object]:
    """Return the fields of an event that make up the decision, without its explanation."""
    return {"type": payload.type, **payload.model_dump(exclude={"detail"})}


def _named(payload: Payload) -> str:
    match payload:
        case MonitorAlert():
            return f"{payload.monitor} {payload.rule}"
        case Intervention():
            return f"intervention {payload.action}"
        case _:
            return payload.type
