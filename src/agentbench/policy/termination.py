"""Termination categories: the category of each termination code, and its mitigation."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.reasons import TerminationCategory, TerminationCode

MITIGATIONS: Mapping[TerminationCategory, str] = {
    TerminationCategory.NON_TERMINATION: "a time limit on every command, a cap on the attempt, and breakers for calls without progress",
    TerminationCategory.DEPENDENCY_AMPLIFICATION: "prepared environments, pinned sources, and a cap on dependency resolution",
    TerminationCategory.BOUNDARY_VIOLATION: "least privilege in the sandbox, no secrets inside, no network unless declared",
    TerminationCategory.SUPPLY_CHAIN: "new dependencies declared, registries restricted, dependency changes reviewed by a person",
    TerminationCategory.EVALUATION_INVALIDITY: "baseline and reference validation, a flake screen, and fixed rules for re-runs",
}

_BY_CODE: Mapping[TerminationCode, TerminationCategory | None] = {
    TerminationCode.AGENT_STOPPED: None,
    TerminationCode.MAX_STEPS: TerminationCategory.NON_TERMINATION,
    TerminationCode.TOOL_CALL_CAP: TerminationCategory.NON_TERMINATION,
    TerminationCode.TOKEN_CAP: TerminationCategory.NON_TERMINATION,
    TerminationCode.COST_CAP: TerminationCategory.NON_TERMINATION,
    TerminationCode.WALL_CAP: TerminationCategory.NON_TERMINATION,
    TerminationCode.FAILED_CYCLE_CAP: TerminationCategory.NON_TERMINATION,
    TerminationCode.REPEATED_CALLS: TerminationCategory.NON_TERMINATION,
    TerminationCode.REPEATED_INSTALLS: TerminationCategory.DEPENDENCY_AMPLIFICATION,
    TerminationCode.OSCILLATION: TerminationCategory.NON_TERMINATION,
    TerminationCode.NO_PROGRESS: TerminationCategory.NON_TERMINATION,
    TerminationCode.DOMINANCE: TerminationCategory.NON_TERMINATION,
    TerminationCode.SAFETY: TerminationCategory.BOUNDARY_VIOLATION,
    TerminationCode.OPERATOR_ABORT: None,
    TerminationCode.LLM_ERROR: None,
    TerminationCode.MODEL_UNAVAILABLE: None,
    TerminationCode.AGENT_CRASHED: None,
    TerminationCode.SANDBOX_ERROR: None,
    TerminationCode.SETUP_FAILED: TerminationCategory.EVALUATION_INVALIDITY,
    TerminationCode.BASELINE_NOT_FAILING: TerminationCategory.EVALUATION_INVALIDITY,
    TerminationCode.CHECK_BROKEN: TerminationCategory.EVALUATION_INVALIDITY,
    TerminationCode.INTERRUPTED: None,
    TerminationCode.TOTAL_BUDGET: None,
}

DEPENDENCY_RULES = "dependency."
"""Prefix of the dependency rules. An attempt that one of them ended has category `supply_chain`."""


def category_of(code: TerminationCode, rule: str = "") -> TerminationCategory | None:
    """Return the category of a termination, or None. `rule` is the rule of the alert that ended the attempt, if any."""
    if code is TerminationCode.SAFETY and rule.startswith(DEPENDENCY_RULES):
        return TerminationCategory.SUPPLY_CHAIN
    return _BY_CODE[code]
