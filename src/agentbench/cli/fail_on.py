"""`--fail-on EXPR`: conditions over the records of a run that make the command exit 1.

EXPR       conditions separated by commas; every one that holds is reported
condition  METRIC OP NUMBER, where OP is one of < <= > >= == !=
METRIC     attempts, passed, failed (counted in the contract rate and not passed),
           invalid, needs_review,
           cost (with that of superseded attempts),
           pass_rate (contract rate), acceptance_rate,
           or a reason such as TESTS_FAILED (number of attempts with that reason)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from functools import partial

from agentbench.contract.problem import did_you_mean
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
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


def _counted(records: Sequence[AttemptRecord]) -> list[AttemptRecord]:
    """Return the attempts that count in the contract rate."""
    return [record for record in records if record.invalid_cause in {None, InvalidCause.SAFETY}]


def _contract(records: Sequence[AttemptRecord]) -> float | None:
    counted = _counted(records)
    return _rate(sum(record.result.passed for record in counted), len(counted))


def _acceptance(records: Sequence[AttemptRecord]) -> float | None:
    scorable = [record for record in records if record.run_status is not RunStatus.INVALID]
    return _rate(sum(record.run_status is RunStatus.SUCCESS for record in scorable), len(scorable))


METRICS: dict[str, Callable[[Sequence[AttemptRecord]], float | None]] = {
    "attempts": len,
    "passed": lambda records: sum(record.result.passed for record in records),
    "failed": lambda records: sum(not record.result.passed for record in _counted(records)),
    "invalid": lambda records: sum(record.run_status is RunStatus.INVALID for record in records),
    "needs_review": lambda records: sum(record.needs_review for record in records),
    "cost": lambda records: sum(record.cost.total for record in records),
    "pass_rate": _contract,
    "acceptance_rate": _acceptance,
}


@dataclass(frozen=True, slots=True)
class Condition:
    metric: str
    op: str
    number: float

    def value(self, records: Sequence[AttemptRecord]) -> float | None:
        """Return the metric. Superseded attempts cost something and count in nothing else."""
        if self.metric != "cost":
            records = [record for record in records if record.final]
        if self.metric in METRICS:
            return METRICS[self.metric](records)
        return sum(record.result.failure_reason == self.metric for record in records)

    def __str__(self) -> str:
        return f"{self.metric}{self.op}{self.number:g}"


def parse(text: str) -> tuple[Condition, ...]:
    """Parse an expression.

    Raises:
        InputError: it is invalid.
    """
    problems = Problems()
    parsed = [problems.collect(partial(_parse_condition, part.strip())) for part in text.split(",")]
    problems.raise_all()
    return tuple(condition for condition in parsed if condition is not None)


def _parse_condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        msg = f"--fail-on: invalid condition '{text}'; expected for example pass_rate<0.8 or TESTS_FAILED>0"
        raise InputError(msg)
    metric, op, number = match.groups()
    known = [*METRICS, *(reason.value for reason in Reason)]
    if metric not in known:
        hint = did_you_mean(metric, known) or f"; expected {', '.join(METRICS)} or a reason such as TESTS_FAILED"
        raise InputError(f"--fail-on: unknown metric '{metric}'{hint}")
    return Condition(metric, op, float(number))


def conditions_met(conditions: Sequence[Condition], records: Sequence[AttemptRecord]) -> list[str]:
    """Return the conditions that hold, with their values. `records` are all, superseded ones included.

    Raises:
        InputError: no condition holds, and one is undefined because no attempt counts.
    """
    met, undefined = [], None
    for condition in conditions:
        value = condition.value(records)
        if value is None:
            undefined = undefined or condition
        elif _OPERATORS[condition.op](value, condition.number):
            met.append(f"{condition} ({condition.metric} is {value:g})")
    if undefined is not None and not met:
        raise InputError(f"--fail-on {undefined} is undecided: no attempts count towards {undefined.metric}")
    return met
