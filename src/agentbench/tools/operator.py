"""Asking a person: what a session needs of whoever carries the question out and the answer in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from agentbench.policy.breakers import Trip

DEADLINE_RULE = "deadline rule"


@dataclass(frozen=True, slots=True)
class Question:
    """What a person must know to decide, without reading source."""

    rule: str
    detail: str
    alert: int
    """Number of the alert in the attempt's log."""
    deadline_sec: int


@dataclass(frozen=True, slots=True)
class Answer:
    decision: Literal["continue", "stop"]
    operator: str
    justification: str


class Operator(Protocol):
    def ask(self, question: Question) -> Answer | None:
        """Wait for the answer, at most until the deadline; None when nobody gave one."""
        ...


def ask(operator: Operator | None, trip: Trip, alert: int, deadline_sec: int) -> Answer:
    """The answer, or what the deadline rule says when there is none: stop."""
    question = Question(trip.rule, trip.detail, alert, deadline_sec)
    answer = operator.ask(question) if operator is not None else None
    if answer is not None:
        return answer
    return Answer("stop", DEADLINE_RULE, f"nobody answered within {deadline_sec} s")
