"""Short constructors for trials."""

from __future__ import annotations

from agentbench.core.reasons import InvalidCause, RunStatus
from agentbench.statistics.trials import Trial

KINDS = {
    "pass": (RunStatus.SUCCESS, True, None),
    "policy": (RunStatus.SUCCESS, False, None),
    "fail": (RunStatus.FAILURE, False, None),
    "error": (RunStatus.ACCEPTANCE_ERROR, False, None),
    "harness": (RunStatus.INVALID, False, InvalidCause.HARNESS),
    "task": (RunStatus.INVALID, False, InvalidCause.TASK),
    "operator": (RunStatus.INVALID, False, InvalidCause.OPERATOR),
    "safety": (RunStatus.INVALID, False, InvalidCause.SAFETY),
}


def trial(task: str, outcome: str, repeat: int = 1) -> Trial:
    status, passed, cause = KINDS[outcome]
    return Trial(task=task, repeat=repeat, status=status, passed=passed, invalid_cause=cause)


def side(outcomes: str) -> list[Trial]:
    """`+` passes, `-` fails, one character per task."""
    return [trial(f"t{number:02}", "pass" if outcome == "+" else "fail") for number, outcome in enumerate(outcomes)]
