"""Collects the problems of a request, so that one message lists all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from agentbench.core.errors import AgentBenchError, ContractError, InputError

T = TypeVar("T")

MAX_SHOWN = 100
"""Problems listed; the rest is only counted."""


class SeveralProblems(ContractError):
    """Several errors in one, at least one of them a mistake of the user."""

    def __init__(self, errors: Iterable[AgentBenchError], consequence: str) -> None:
        self.errors = tuple(errors)
        lines = [line for error in self.errors for line in _lines(error)]
        more = [f"and {len(lines) - MAX_SHOWN} more problems"] if len(lines) > MAX_SHOWN else []
        super().__init__(f"{len(lines)} problems{consequence}", problems=(*lines[:MAX_SHOWN], *more))


class Problems:
    """The errors that checks raised, each once."""

    def __init__(self) -> None:
        self._errors: dict[str, AgentBenchError] = {}

    def __bool__(self) -> bool:
        return bool(self._errors)

    def collect(self, check: Callable[[], T], place: str = "") -> T | None:
        """Run a check and return its result, or keep the error that it raises and return None.

        `place` is put before the message of an error that does not name the file and line of its problems.
        """
        try:
            return check()
        except AgentBenchError as error:
            for each in error.errors if isinstance(error, SeveralProblems) else (error,):
                if not (isinstance(each, ContractError) and each.problems):
                    each.message = place + each.message
                self.add(each)
        return None

    def add(self, error: AgentBenchError) -> None:
        """Keep an error."""
        for each in error.errors if isinstance(error, SeveralProblems) else (error,):
            self._errors.setdefault(each.message, each)

    def raise_all(self, consequence: str = ", nothing was started") -> None:
        """
        Raises:
            AgentBenchError: the only problem, or a ContractError that lists all.
        """
        errors = list(self._errors.values())
        mistakes = [error for error in errors if isinstance(error, InputError)]
        if len(errors) == 1 or (errors and not mistakes):
            raise errors[0]
        if mistakes:
            raise SeveralProblems(errors, consequence)


def _lines(error: AgentBenchError) -> list[str]:
    """Return the problems of an error, each with its place; the last one with the remedy."""
    lines = list(error.problems) if isinstance(error, ContractError) else []
    lines = lines or [error.message]
    if error.remedy:
        lines[-1] += f" ({error.remedy})"
    return lines
