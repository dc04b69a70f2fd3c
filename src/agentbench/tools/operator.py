"""The interface to a human operator who decides whether a paused attempt continues."""

from __future__ import annotations

from typing import Literal, Protocol

from agentbench.core.dataclass import dataclass
from agentbench.policy.breakers import Trip

DEADLINE_RULE = "deadline rule"


@dataclass(frozen=True, slots=True)
class Question:
    """A question to an operator, with everything needed to decide it without reading source code."""

    rule: str
    detail: str
    alert: int
    """Number of the alert in the attempt's log."""
    deadline_sec: int
    call: str = ""
    """The whole call that waits: the command line, or the tool and its arguments."""


@dataclass(frozen=True, slots=True)
class Answer:
    decision: Literal["continue", "stop"]
    operator: str
    justification: str


class Operator(Protocol):
    def ask(self, question: Question) -> Answer | None:
        """Wait for the answer until the deadline. Returns None if there is none."""
        ...


def ask(operator: Operator | None, trip: Trip, alert: int, deadline_sec: int, call: str) -> Answer:
    """Return the operator's answer, or `stop` if there is none before the deadline. `call` is the call that waits."""
    question = Question(trip.rule, trip.detail, alert, deadline_sec, call)
    answer = operator.ask(question) if operator is not None else None
    if answer is not None:
        return answer
    return Answer("stop", DEADLINE_RULE, f"no answer within {deadline_sec} s")
