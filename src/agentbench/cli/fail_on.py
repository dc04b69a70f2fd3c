"""`--fail-on EXPR`: conditions over the records of a run that make the command exit 1.

EXPR       conditions separated by commas; the first that holds is named
condition  METRIC OP NUMBER     OP: < <= > >= == !=
METRIC     attempts passed failed invalid needs_review cost
           pass_rate (contract: passed, invalid runs of ours and the task's left out), acceptance_rate (success of scorable)
           or a reason: TESTS_FAILED, POLICY_VIOLATION, … (attempts that have it)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentbench.core.errors import InputError
from agentbench.core.reasons import InvalidCause, Reason, RunStatus
from agentbench.record.schema import AttemptRecord

_CONDITION = re.compile(r"\s*([A-Za-z_]+)\s*(<=|>=|==|!=|<|>)\s*([0-9]+(?:\.[0-9]+)?)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _contract(records: Sequence[AttemptRecord]) -> float | None:
    ours = {InvalidCause.HARNESS, InvalidCause.TASK, InvalidCause.OPERATOR}
    counted = [one for one in records if one.invalid_cause not in ours]
    return _rate(sum(one.result.passed for one in counted), len(counted))


def _acceptance(records: Sequence[AttemptRecord]) -> float | None:
    scorable = [one for one in records if one.run_status is not RunStatus.INVALID]
    return _rate(sum(one.run_status is RunStatus.SUCCESS for one in scorable), len(scorable))


METRICS: dict[str, Callable[[Sequence[AttemptRecord]], float | None]] = {
    "attempts": len,
    "passed": lambda records: sum(one.result.passed for one in records),
    "failed": lambda records: sum(not one.result.passed for one in records),
    "invalid": lambda records: sum(one.run_status is RunStatus.INVALID for one in records),
    "needs_review": lambda records: sum(one.needs_review for one in records),
    "cost": lambda records: sum(one.cost.total for one in records),
    "pass_rate": _contract,
    "acceptance_rate": _acceptance,
}


@dataclass(frozen=True, slots=True)
class Condition:
    metric: str
    op: str
    number: float

    def value(self, records: Sequence[AttemptRecord]) -> float | None:
        if self.metric in METRICS:
            return METRICS[self.metric](records)
        return sum(one.result.failure_reason == self.metric for one in records)

    def __str__(self) -> str:
        return f"{self.metric}{self.op}{self.number:g}"


def parse(text: str) -> tuple[Condition, ...]:
    """
    Raises:
        InputError: not an expression; says what one is.
    """
    conditions = []
    for piece in text.split(","):
        found = _CONDITION.fullmatch(piece)
        if found is None:
            msg = f"--fail-on: '{piece.strip()}' is no condition; expected e.g. pass_rate<0.8 or TESTS_FAILED>0"
            raise InputError(msg)
        if found[1] not in METRICS and found[1] not in {reason.value for reason in Reason}:
            msg = f"--fail-on: there is no '{found[1]}'; expected {', '.join(METRICS)} or a reason such as TESTS_FAILED"
            raise InputError(msg)
        conditions.append(Condition(found[1], found[2], float(found[3])))
    return tuple(conditions)


def held(conditions: Sequence[Condition], records: Sequence[AttemptRecord]) -> str | None:
    """The first condition that holds, with its value; None when none does.

    Raises:
        InputError: one cannot be decided, because nothing can be counted.
    """
    undecided = None
    for one in conditions:
        value = one.value(records)
        if value is None:
            undecided = undecided or one
        elif _OPERATORS[one.op](value, one.number):
            return f"{one} ({one.metric} is {value:g})"
    if undecided is not None:
        msg = f"--fail-on {undecided} cannot be decided: no attempt counts for {undecided.metric}"
        raise InputError(msg)
    return None
