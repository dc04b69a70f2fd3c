"""Lists the rules that cannot be evaluated at a level of observability, with the reason.

A rule that misses the events it is about would decide from what the log does not show. The manifest lists such rules, and both
the live rule engine and the recomputation skip them.
"""

from __future__ import annotations

from agentbench.core.reasons import Observability

DOMINANCE_TIME = "dominance.time"
"""The share of the time budget in the rule `dominance`."""

_NO_CALLS = "tool calls of a program are not seen"
_NO_TESTS = "test runs of a program are not seen"
_PROGRAM = {
    "burst": _NO_CALLS,
    "expensive_repeat": _NO_CALLS,
    "write_suspension": _NO_CALLS,
    "repeated_calls": _NO_CALLS,
    "oscillation": _NO_TESTS,
    DOMINANCE_TIME: "no event of a program states how much time it has used",
    "max_steps": _NO_CALLS,
    "tool_call_cap": _NO_CALLS,
    "failed_cycle_cap": _NO_TESTS,
}
_NO_REQUESTS = "neither tool calls nor model requests of the program are seen"


def not_applicable(level: Observability, observation_problem: str | None = None) -> dict[str, str]:
    """Return the rules and caps that cannot be evaluated for an agent of this level, each with the reason.

    `observation_problem`: why the processes of a program cannot be observed on this machine, if they cannot.
    """
    if level is Observability.TOOLS:
        return {}
    rules = dict(_PROGRAM)
    if observation_problem is not None:
        rules["repeated_installs"] = f"commands of the program are not observed: {observation_problem}"
    if level is Observability.PROCESS:
        rules |= dict.fromkeys(("no_progress", "dominance"), _NO_REQUESTS)
    return rules
