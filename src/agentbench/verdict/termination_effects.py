"""The effect of each termination code on the verdict, as tables."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.reasons import InvalidCause, Reason, TerminationCode

INVALIDATING: Mapping[TerminationCode, tuple[Reason, InvalidCause]] = {
    TerminationCode.SETUP_FAILED: (Reason.SETUP_FAILED, InvalidCause.TASK),
    TerminationCode.BASELINE_NOT_FAILING: (Reason.BASELINE_NOT_FAILING, InvalidCause.TASK),
    TerminationCode.CHECK_BROKEN: (Reason.ACCEPTANCE_ERROR, InvalidCause.TASK),
    TerminationCode.SANDBOX_ERROR: (Reason.SANDBOX_ERROR, InvalidCause.HARNESS),
    TerminationCode.SAFETY: (Reason.SAFETY_STOP, InvalidCause.SAFETY),
    TerminationCode.OPERATOR_ABORT: (Reason.OPERATOR_ABORT, InvalidCause.OPERATOR),
    TerminationCode.INTERRUPTED: (Reason.INTERRUPTED, InvalidCause.OPERATOR),
    TerminationCode.MODEL_UNAVAILABLE: (Reason.LLM_ERROR, InvalidCause.HARNESS),
    TerminationCode.TOTAL_BUDGET: (Reason.INTERRUPTED, InvalidCause.OPERATOR),
}
"""Terminations that make the attempt invalid."""

SCORED: Mapping[TerminationCode, Reason | None] = {
    TerminationCode.AGENT_STOPPED: None,
    TerminationCode.LLM_ERROR: Reason.LLM_ERROR,
    TerminationCode.TOKEN_CAP: Reason.BUDGET_EXHAUSTED,
    TerminationCode.COST_CAP: Reason.BUDGET_EXHAUSTED,
    TerminationCode.TOOL_CALL_CAP: Reason.BUDGET_EXHAUSTED,
    TerminationCode.FAILED_CYCLE_CAP: Reason.BUDGET_EXHAUSTED,
    TerminationCode.DOMINANCE: Reason.BUDGET_EXHAUSTED,
    TerminationCode.WALL_CAP: Reason.TIMEOUT,
    TerminationCode.AGENT_CRASHED: Reason.TOOL_ERROR,
    TerminationCode.MAX_STEPS: Reason.AGENT_GAVE_UP,
    TerminationCode.REPEATED_CALLS: Reason.AGENT_GAVE_UP,
    TerminationCode.REPEATED_INSTALLS: Reason.AGENT_GAVE_UP,
    TerminationCode.OSCILLATION: Reason.AGENT_GAVE_UP,
    TerminationCode.NO_PROGRESS: Reason.AGENT_GAVE_UP,
}
"""Terminations after which the patch is still graded, with the reason if it then fails. None: the tests give the reason."""

_BADGES: Mapping[TerminationCode, str] = {
    TerminationCode.AGENT_STOPPED: "completed",
    TerminationCode.LLM_ERROR: "crashed",
    TerminationCode.AGENT_CRASHED: "crashed",
    TerminationCode.SANDBOX_ERROR: "error",
    TerminationCode.MODEL_UNAVAILABLE: "error",
    TerminationCode.SETUP_FAILED: "not_started",
    TerminationCode.BASELINE_NOT_FAILING: "not_started",
    TerminationCode.CHECK_BROKEN: "not_started",
    TerminationCode.SAFETY: "aborted",
    TerminationCode.OPERATOR_ABORT: "aborted",
    TerminationCode.INTERRUPTED: "aborted",
    TerminationCode.TOTAL_BUDGET: "aborted",
}

RESOURCE_STOPS = frozenset(
    code for code, reason in SCORED.items() if reason in {Reason.BUDGET_EXHAUSTED, Reason.TIMEOUT}
)
"""Terminations by a cap. They are no acceptance failure by themselves."""


def reason_of(code: TerminationCode) -> Reason | None:
    """Return the reason that a termination gives an attempt that did not pass."""
    return INVALIDATING[code][0] if code in INVALIDATING else SCORED[code]


def badge_of(code: TerminationCode) -> str:
    """Return `completed`, `stopped` (by a cap or breaker), `crashed`, `aborted`, `error` or `not_started`."""
    return _BADGES.get(code, "stopped")
