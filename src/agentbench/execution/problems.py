"""Collects the problems of a request, so that one message lists all of them."""

from __future__ import annotations

from collections.abc import Callable

from agentbench.core.errors import AgentBenchError, ContractError, InputError


class Problems:
    """The errors that checks raised, each once."""

    def __init__(self) -> None:
        self._errors: dict[str, AgentBenchError] = {}

    def collect(self, check: Callable[[], object]) -> None:
        """Run a check, and keep the error that it raises."""
        try:
            check()
        except AgentBenchError as error:
            self._errors.setdefault(error.message, error)

    def raise_all(self) -> None:
        """
        Raises:
            AgentBenchError: the only problem, or a ContractError that lists all.
        """
        errors = list(self._errors.values())
        mistakes = [error for error in errors if isinstance(error, InputError)]
        if len(errors) == 1 or (errors and not mistakes):
            raise errors[0]
        if mistakes:
            raise ContractError(f"{len(errors)} problems, nothing was started", problems=tuple(map(_describe, errors)))


def _describe(error: AgentBenchError) -> str:
    details = error.problems if isinstance(error, ContractError) else ()
    text = "; ".join((error.message, *details))
    return f"{text} ({error.remedy})" if error.remedy else text
