"""Enums of a verdict. Their values are public: records and events contain them."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The decision of a check. `error` means no decision; it counts neither as pass nor as fail."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"


class RunStatus(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    ACCEPTANCE_ERROR = "acceptance_error"
    INVALID = "invalid"


class InvalidCause(StrEnum):
    HARNESS = "harness"
    TASK = "task"
    SAFETY = "safety"
    OPERATOR = "operator"


class Attribution(StrEnum):
    AGENT = "agent"
    HARNESS = "harness"
    INDETERMINATE = "indeterminate"


class Reason(StrEnum):
    """Primary reason why an attempt did not pass, in order of precedence: the first that applies."""

    SETUP_FAILED = "SETUP_FAILED"
    BASELINE_NOT_FAILING = "BASELINE_NOT_FAILING"
    SANDBOX_ERROR = "SANDBOX_ERROR"
    SAFETY_STOP = "SAFETY_STOP"
    OPERATOR_ABORT = "OPERATOR_ABORT"
    INTERRUPTED = "INTERRUPTED"
    PATCH_INVALID = "PATCH_INVALID"
    BUILD_FAILED = "BUILD_FAILED"
    POLICY_VIOLATION = "POLICY_VIOLATION"
    ACCEPTANCE_ERROR = "ACCEPTANCE_ERROR"
    LLM_ERROR = "LLM_ERROR"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    TIMEOUT = "TIMEOUT"
    TOOL_ERROR = "TOOL_ERROR"
    AGENT_GAVE_UP = "AGENT_GAVE_UP"
    TESTS_FAILED = "TESTS_FAILED"


class TerminationCode(StrEnum):
    AGENT_STOPPED = "agent_stopped"
    MAX_STEPS = "max_steps"
    TOOL_CALL_CAP = "tool_call_cap"
    TOKEN_CAP = "token_cap"
    COST_CAP = "cost_cap"
    WALL_CAP = "wall_cap"
    FAILED_CYCLE_CAP = "failed_cycle_cap"
    REPEATED_CALLS = "repeated_calls"
    REPEATED_INSTALLS = "repeated_installs"
    OSCILLATION = "oscillation"
    NO_PROGRESS = "no_progress"
    DOMINANCE = "dominance"
    SAFETY = "safety"
    OPERATOR_ABORT = "operator_abort"
    LLM_ERROR = "llm_error"
    MODEL_UNAVAILABLE = "model_unavailable"
    AGENT_CRASHED = "agent_crashed"
    SANDBOX_ERROR = "sandbox_error"
    SETUP_FAILED = "setup_failed"
    BASELINE_NOT_FAILING = "baseline_not_failing"
    CHECK_BROKEN = "check_broken"
    INTERRUPTED = "interrupted"
    TOTAL_BUDGET = "total_budget"


REPEATED_ON_RESUME = frozenset(
    {TerminationCode.INTERRUPTED, TerminationCode.TOTAL_BUDGET, TerminationCode.MODEL_UNAVAILABLE}
)
"""Terminations after which resuming the run makes the attempt again: it has no result yet."""


class TerminationCategory(StrEnum):
    NON_TERMINATION = "non_termination"
    DEPENDENCY_AMPLIFICATION = "dependency_amplification"
    BOUNDARY_VIOLATION = "boundary_violation"
    SUPPLY_CHAIN = "supply_chain"
    EVALUATION_INVALIDITY = "evaluation_invalidity"


class Gate(StrEnum):
    G1 = "G1"
    G2 = "G2"
    G3 = "G3"
    G4 = "G4"


class Assurance(StrEnum):
    """How hard a check's result is to forge, strongest first."""

    OUT_OF_PROCESS = "out_of_process"
    PER_TEST = "per_test"
    EXIT_CODE = "exit_code"


class Observability(StrEnum):
    """How much of an agent's work the trace shows: its tool calls, its model traffic, or only its effects."""

    TOOLS = "tools"
    GATEWAY = "gateway"
    PROCESS = "process"
