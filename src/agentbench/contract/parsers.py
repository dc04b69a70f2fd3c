"""Names of the parsers of test results that a check can have. `acceptance.checks` implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentbench.contract.problem import did_you_mean
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

BUILT_IN = ("pytest", "junit", "exit_code")
OTHER_PARSERS: Extensions[Callable[..., Any]] = Extensions(Kind.CHECK, BUILT_IN)
"""Parsers of plug-ins."""


def parser_problem(name: str) -> str | None:
    """Return why a check cannot have the parser."""
    if name in BUILT_IN or OTHER_PARSERS.has(name):
        return None
    known = (*BUILT_IN, *OTHER_PARSERS.names())
    hint = did_you_mean(name, known) or "; `ab plugins` lists what is installed"
    return f"expected one of {', '.join(known)}; got {name}{hint}"
