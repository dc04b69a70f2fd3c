"""Stopping rules: pure decisions from the attempts so far. The first rule that holds stops the pilot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.pilot.decisions.observations import BREAKERS, CAPS, Observation
from agentbench.pilot.design.pilot_file import PilotFile

SAFETY = "safety"
BREAKER = "breakers"
CAP = "caps"
TOTAL_BUDGET = "total_budget"


@dataclass(frozen=True, slots=True)
class Stop:
    """A rule that holds, and the attempts that prove it."""

    rule: str
    why: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleState:
    """The state of a stopping rule, and how close it is to stopping the pilot."""

    rule: str
    state: str
    stop: Stop | None


def stopping_rules(pilot: PilotFile, observations: Sequence[Observation], spent: float) -> Iterator[RuleState]:
    """Evaluate every rule that the pilot has registered. `spent` is the cost of all attempts, superseded ones included."""
    rules = pilot.stopping
    counted: list[tuple[str, int | None, str, Callable[[Observation], bool]]] = [
        (SAFETY, rules.safety_attempts, "violated a boundary", lambda attempt: attempt.violation),
        (BREAKER, rules.breaker_attempts, "were ended by a breaker", lambda attempt: attempt.termination in BREAKERS),
        (CAP, rules.cap_attempts, "reached a cap", lambda attempt: attempt.termination in CAPS),
    ]
    for rule, limit, what, holds in counted:
        if limit is not None:
            yield _by_method(rule, limit, what, [attempt for attempt in observations if holds(attempt)])
    total = pilot.budgets.total
    state = f"{spent:.6g} of {total:g} spent"
    stop = Stop(TOTAL_BUDGET, f"the total budget is spent: {state}", ()) if spent >= total else None
    yield RuleState(TOTAL_BUDGET, state, stop)


def first_stop(states: Iterable[RuleState]) -> Stop | None:
    """Return the stop of the first rule that holds."""
    return next((state.stop for state in states if state.stop is not None), None)


def _by_method(rule: str, limit: int, what: str, attempts: Sequence[Observation]) -> RuleState:
    """Count attempts by method, and stop at the first method that reaches the limit."""
    by_method: dict[str, list[str]] = {}
    for attempt in attempts:
        by_method.setdefault(attempt.method, []).append(attempt.attempt_id)
    most = max(map(len, by_method.values()), default=0)
    state = f"{most} attempts of a method {what} at most (limit {limit})"
    for method, ids in sorted(by_method.items()):
        if len(ids) >= limit:
            why = f"{len(ids)} attempts of {method} {what} (limit {limit})"
            return RuleState(rule, state, Stop(rule, why, tuple(sorted(ids))))
    return RuleState(rule, state, None)
