"""Refusals of a pilot: a criterion that does not hold, as opposed to bad input."""

from __future__ import annotations

from agentbench.core.errors import AgentBenchError


class CriterionNotMet(AgentBenchError):
    """A condition that the pilot has registered does not hold."""

    exit_code = 1
