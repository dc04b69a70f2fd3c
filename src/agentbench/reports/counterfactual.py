"""Where an attempt would have stopped under other caps, from its log.

The rule engine of the run is fed with the logged events and the assumed caps. It is asked where the session would have
asked it: before each tool call, each model request and each further turn. Events after a stop did not happen.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from agentbench.core.dataclass import dataclass
from agentbench.core.execution_price import ExecutionPrice
from agentbench.core.reasons import TerminationCode
from agentbench.policy.budget import Budget, CostCap, ReachedCap, reached_cap
from agentbench.policy.headroom import spendable
from agentbench.policy.limits import Limits
from agentbench.policy.prices import MICRO
from agentbench.policy.recheck import BUDGET
from agentbench.policy.repository_state import RepositoryState
from agentbench.policy.rule_engine import RuleEngine
from agentbench.policy.termination import category_of
from agentbench.policy.thresholds import FIXED_HEADROOM
from agentbench.record.cost import rates_from
from agentbench.record.manifest import Planned
from agentbench.record.recompute import limits_from
from agentbench.trace.chain import Event
from agentbench.trace.events import (
    Briefing,
    Intervention,
    LlmRequest,
    MonitorAlert,
    OperatorDecision,
    Payload,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
)

CAP_CODES: Mapping[str, frozenset[TerminationCode]] = {
    "active_sec": frozenset({TerminationCode.WALL_CAP, TerminationCode.DOMINANCE}),
    "tool_calls": frozenset({TerminationCode.TOOL_CALL_CAP, TerminationCode.MAX_STEPS}),
    "tokens": frozenset({TerminationCode.TOKEN_CAP, TerminationCode.DOMINANCE}),
    "usd": frozenset({TerminationCode.COST_CAP, TerminationCode.DOMINANCE}),
}
"""Caps, and how an attempt ends that reaches one."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The point in the log at which assumed caps stop the attempt."""

    position: int
    """Number of events before it."""
    code: TerminationCode
    why: str
    same_patch: bool
    """The repository was in its final state already."""
    unchanged: bool
    """The repository was still in its initial state."""
    in_call: bool = False
    """A tool call or a program was running: its reaction to the stop is not in the log."""


@dataclass(frozen=True, slots=True)
class LedgerCaps:
    """Caps on model requests: the whole cost cap with its headroom, and tokens."""

    cost: CostCap | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The effect of assumed caps: a stop, none, or unknown."""

    stop: Stop | None = None
    unknown: str = ""


def assumed_limits(planned: Planned, caps: Mapping[str, float]) -> Limits:
    """Return the limits of the rule engine under other caps; `usd` less the headroom, as in a real run.

    Raises:
        ValueError: the thresholds of the manifest are invalid.
    """
    plan = planned.grading
    old = (
        Limits(Budget(plan.cap_tool_calls, plan.cap_tokens, _spendable(planned, plan.cap_usd)))
        if planned.guard is None
        else limits_from(planned.guard)
    )
    budget, wall_us = old.budget, old.wall_us
    if "tool_calls" in caps:
        same = budget.tool_calls == int(caps["tool_calls"])
        steps_are_calls = budget.steps_are_calls and same
        budget = replace(budget, tool_calls=int(caps["tool_calls"]), steps_are_calls=steps_are_calls)
    if "tokens" in caps:
        budget = replace(budget, tokens=max(int(caps["tokens"]), 1))
    if "usd" in caps:
        budget = replace(budget, cost_micro_usd=_spendable(planned, caps["usd"]))
    if "active_sec" in caps:
        wall_us = int(caps["active_sec"] * MICRO)
    return replace(old, budget=budget, wall_us=wall_us)


def _spendable(planned: Planned, usd: float | None) -> int | None:
    return None if usd is None else spendable(round(usd * MICRO), _reserve(planned, usd))


def _reserve(planned: Planned, usd: float) -> int:
    """Return the headroom in micro-units: the recorded one, or the fixed share of earlier versions."""
    if planned.headroom is not None:
        return planned.headroom.micro
    percent = planned.guard.thresholds.get(FIXED_HEADROOM, 0) if planned.guard else 0
    return round(usd * MICRO) * percent // 100


def _ledger_caps(planned: Planned, caps: Mapping[str, float], unit: str) -> LedgerCaps:
    """Return the caps that the ledger compares before each model request."""
    usd, tokens = caps.get("usd", planned.grading.cap_usd), caps.get("tokens", planned.grading.cap_tokens)
    return LedgerCaps(
        cost=None if usd is None else CostCap(round(usd * MICRO), _reserve(planned, usd), unit),
        tokens=None if tokens is None else int(tokens),
    )


def effect_of(
    events: Sequence[Event], planned: Planned, caps: Mapping[str, float], unit: str, active_sec: float = 0.0
) -> Outcome:
    """Return where the caps would have stopped the attempt.

    `unit` is that of its cost, and `active_sec` its recorded active time, 0 if unknown.
    """
    limits = assumed_limits(planned, caps)
    ledger = _ledger_caps(planned, caps, unit)
    walk = _Walk(limits, ledger, rates_from(planned).execution, breakers=planned.guard is not None)
    for position, (event, active) in enumerate(zip(events, active_times(events, active_sec), strict=True)):
        payload = event.payload
        if isinstance(payload, Termination):
            return _at_the_end(walk, payload, events, caps)
        reached = walk.reached(event, active)
        if reached is not None:
            now, final = walk.repository, _final_state(events)
            return Outcome(
                Stop(
                    position,
                    reached.code,
                    reached.rationale,
                    same_patch=now.signature == final,
                    unchanged=not now.differs,
                    in_call=walk.in_call,
                )
            )
        walk.observe(event)
    return Outcome()


def active_times(events: Sequence[Event], at_end: float = 0.0) -> list[int]:
    """Return the active microseconds of the session at each event: without waiting for an operator or an unavailable model.

    Tool calls log the clock of the session. Between them time passes as the events say, up to what the next call logs.
    `at_end` is the recorded time at the end in seconds, 0 if unknown.
    """
    times: list[int] = []
    now = last = 0
    counting = False
    for event in events:
        payload = event.payload
        if counting:
            now += event.t - last
        last = event.t
        if isinstance(payload, Briefing | OperatorDecision):
            counting = True
        elif isinstance(payload, Intervention) and payload.action == "pause":
            counting = False
        elif isinstance(payload, ToolCallStarted):
            now = payload.elapsed_us or now  # old logs have no clock
        elif isinstance(payload, Termination):
            now = round(at_end * MICRO) or now
        times.append(now)
    for index in range(len(times) - 1, 0, -1):
        times[index - 1] = min(times[index - 1], times[index])
    return times


def _at_the_end(walk: _Walk, ended: Termination, events: Sequence[Event], caps: Mapping[str, float]) -> Outcome:
    """Decide an attempt that ended before any assumed cap stopped it."""
    by_cap = [name for name in caps if ended.code in CAP_CODES[name]]
    due = walk.due()
    if not by_cap or _by_shared_cap(ended, events) or (due is not None and due.code == ended.code):
        return Outcome()
    listed = ", ".join(f"{name} {caps[name]:g}" for name in by_cap)
    return Outcome(unknown=f"ended as {ended.code}; the effect of {listed} is unknown")


def _by_shared_cap(ended: Termination, events: Sequence[Event]) -> bool:
    """Return whether a cap of the task or the run ended the attempt; other caps of the attempt do not change that."""
    evidence = set(ended.evidence)
    return any(
        isinstance(event.payload, MonitorAlert)
        and event.payload.monitor == BUDGET
        and bool(event.payload.signals.get("shared"))
        for event in events
        if event.seq in evidence
    )


def _final_state(events: Sequence[Event]) -> Hashable:
    state = RepositoryState()
    for event in events:
        if isinstance(event.payload, Termination):
            break
        state.update(event.payload)
    return state.signature


class _Walk:
    """Feeds the events of the agent phase to a rule engine with assumed limits."""

    def __init__(self, limits: Limits, ledger: LedgerCaps, price: ExecutionPrice, *, breakers: bool) -> None:
        self.repository = RepositoryState()
        self._limits = limits
        self._breakers = breakers
        self._ledger = ledger
        self._price = price
        self._engine = RuleEngine(limits)
        self._began = False
        self._call: tuple[ToolCallStarted, int] | None = None
        self._calls = 0

    @property
    def in_call(self) -> bool:
        return self._call is not None

    def observe(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, Briefing):
            self._began = True
        elif isinstance(payload, ToolCallStarted):
            self._call, self._calls = (payload, event.t), self._calls + 1
        elif isinstance(payload, ToolCallFinished):
            self._call = None
        self.repository.update(payload)
        self._engine.observe(event.seq, payload)

    def due(self) -> ReachedCap | None:
        """Return why the session would end at its next check, without the clock."""
        stop = self._engine.stop
        if self._breakers and stop is not None and stop.code is not None:
            return ReachedCap(stop.code, stop.detail)
        return reached_cap(self._engine.spent, self._limits.budget, cost_cap=self._ledger.cost)

    def reached(self, event: Event, active: int) -> ReachedCap | None:
        """Return why the session would have ended before this event, or None. `active` is its active time at the event."""
        if not self._began:
            return None
        if self._limits.wall_us is not None and active >= self._limits.wall_us:
            why = f"{active / MICRO:.4g} of {self._limits.wall_us / MICRO:g} s used"
            return ReachedCap(TerminationCode.WALL_CAP, why)
        if self._call is not None:
            return self._refusal(event) if isinstance(event.payload, LlmRequest) else None
        if not _is_checked(event.payload):
            return None
        return self.due() or (self._refusal(event) if isinstance(event.payload, LlmRequest) else None)

    def _refusal(self, event: Event) -> ReachedCap | None:
        """Return why the ledger would have refused a model request. It also counts the running call of a program."""
        spent, caps = self._engine.spent, self._ledger
        running = 0 if self._call is None else event.t - self._call[1]
        cost = spent.cost_micro_usd + self._price.cost(self._calls, spent.tool_us + running)
        if caps.cost is not None and cost >= caps.cost.micro - caps.cost.reserve_micro:
            return ReachedCap(TerminationCode.COST_CAP, caps.cost.describe(cost))
        if caps.tokens is not None and spent.tokens >= caps.tokens:
            return ReachedCap(TerminationCode.TOKEN_CAP, f"{spent.tokens} of {caps.tokens} tokens used")
        return None


def _is_checked(payload: Payload) -> bool:
    """Return whether the session checks its caps before this event."""
    if isinstance(payload, ToolCallStarted):
        return payload.by_agent
    return isinstance(payload, LlmRequest | Briefing)


def stopped_log(events: Sequence[Event], stop: Stop) -> list[Event]:
    """Return the log as it would be with the stop and the same patch."""
    end = next(index for index, event in enumerate(events) if isinstance(event.payload, Termination))
    last = events[stop.position - 1].seq if stop.position else events[0].seq
    termination = Termination(code=stop.code, category=category_of(stop.code), rationale=stop.why, evidence=[last])
    return [*events[: stop.position], replace(events[end], payload=termination), *events[end + 1 :]]
