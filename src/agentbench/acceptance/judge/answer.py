"""What a judge said, held against the schema. Anything else is unparseable, and said to be."""

from __future__ import annotations

import json
import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

MAX_ANSWER = 200_000
_FENCE = re.compile(r"```(?:json)?[ \t\r]*+\n(.*)\n```\Z", re.DOTALL)

Score = Annotated[int, Field(ge=1, le=5)]
Text = Annotated[str, StringConstraints(max_length=20_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class FactCheck(_Strict):
    claim: Text
    verdict: Literal["supported", "refuted", "unverifiable"]
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
            msg = "a FAIL needs a failure_mode"
            raise ValueError(msg)
        if self.verdict == "PASS" and named:
            msg = "a PASS has no failure_mode"
            raise ValueError(msg)
        return self


class Unparseable(ValueError):
    """A reply that is no answer. The message says why."""


def read_answer(text: str) -> Answer:
    """
    Raises:
        Unparseable: prose, broken JSON, a score off the scale, a missing or unknown field.
    """
    if len(text) > MAX_ANSWER:
        raise Unparseable(f"the reply has {len(text)} characters")
    # Blanks at the ends and before the last fence are taken off first: a pattern would try each row of them at every place.
    text = text.strip()
    if text.endswith("```"):
        text = text[:-3].rstrip(" \t") + "```"
    fenced = _FENCE.match(text)
    body = fenced[1] if fenced else text
    try:
        json.loads(body, object_pairs_hook=_unique)
        return Answer.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        words = first["msg"].removeprefix("Value error, ")
        raise Unparseable(f"{place}: {words}" if place else words) from None
    except RecursionError:
        raise Unparseable("nested too deeply") from None
    except ValueError as error:
        raise Unparseable(f"no JSON object: {error}") from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a key is given twice"
        raise ValueError(msg)
    return found
