"""Parses a judge's reply against the schema. Everything else is unparseable and reported as such; of a fact, only its verdict."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from agentbench.core.unique_keys import unique_members

MAX_ANSWER = 200_000
_FENCE = re.compile(r"```(?:json)?[ \t\r]*+\n(.*)\n```\Z", re.DOTALL)

Score = Annotated[int, Field(ge=1, le=5)]
Text = Annotated[str, StringConstraints(max_length=20_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


_FACT_VERDICTS = ("supported", "refuted", "unverifiable")


class FactCheck(_Strict):
    claim: Text
    verdict: Annotated[
        Literal["supported", "refuted", "unverifiable", "unparseable"],
        BeforeValidator(lambda value: value if value in _FACT_VERDICTS else "unparseable"),
    ]
    """Another verdict than the first three is unparseable. It decides nothing, so the rest of the answer counts."""
    evidence: Text


class Answer(_Strict):
    task_completion: Score
    instruction_adherence: Score
    efficiency: Score
    facts: Annotated[tuple[FactCheck, ...], Field(max_length=100)] = ()
    reasoning: Text
    verdict: Literal["PASS", "FAIL"]
    failure_mode: Annotated[str, StringConstraints(max_length=100)] | None = None

    @model_validator(mode="after")
    def _failure_has_a_mode(self) -> Self:
        named = bool((self.failure_mode or "").strip())  # many models write "" for none
        if self.verdict == "FAIL" and not named:
            raise ValueError("a FAIL needs a failure_mode")
        if self.verdict == "PASS" and named:
            raise ValueError("a PASS has no failure_mode")
        return self


class Unparseable(ValueError):
    """A reply that is not a valid answer. The message says why."""


def read_answer(text: str) -> Answer:
    """Parse a judge's reply.

    Raises:
        Unparseable: prose, broken JSON, a score off the scale, a missing or unknown field.
    """
    if len(text) > MAX_ANSWER:
        raise Unparseable(f"reply too long: {len(text)} characters")
    # Strip blanks at the ends and before the last fence first: the pattern would take quadratic time on long runs
    # of them.
    text = text.strip()
    if text.endswith("```"):
        text = text[:-3].rstrip(" \t") + "```"
    fenced = _FENCE.match(text)
    body = fenced[1] if fenced else text
    try:
        json.loads(body, object_pairs_hook=unique_members)
        return Answer.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise Unparseable(f"{field}: {message}" if field else message) from None
    except RecursionError:
        raise Unparseable("nested too deeply") from None
    except ValueError as error:
        raise Unparseable(f"not a JSON object: {error}") from None
