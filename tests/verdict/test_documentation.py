from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.reasons import Gate, InvalidCause, Reason, RunStatus, TerminationCode
from agentbench.verdict import decide
from agentbench.verdict.taxonomy import taxonomy
from agentbench.verdict.terms import published_rubric

pytestmark = pytest.mark.component

PAGE = Path(__file__).parents[2] / "docs" / "explanation/grading.md"


@pytest.mark.req("G-06a", "G-07")
def test_docs_name_every_value_of_a_verdict() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for word in (*Reason, *TerminationCode, *RunStatus, *InvalidCause, *Gate):
        assert str(word) in text, word
    for kind in taxonomy().values():
        row = next(line for line in text.splitlines() if line.startswith(f"| `{kind.id}` |"))
        assert all(event in row for event in kind.evidence if event != "*"), kind.id
        assert " ".join(kind.gates) in row, kind.id


@pytest.mark.req("G-07")
def test_documented_order_of_reasons_is_the_order_in_use() -> None:
    for text in (PAGE.read_text(encoding="utf-8"), decide.__doc__ or ""):
        starts = [line.strip(" |`").split("`")[0].split(" ")[0] for line in text.splitlines()]
        assert list(dict.fromkeys(start for start in starts if start in set(Reason))) == list(Reason)


@pytest.mark.req("G-04", "G-05")
def test_documented_numbers_are_the_numbers_in_use() -> None:
    text, rubric = PAGE.read_text(encoding="utf-8"), published_rubric()
    assert f"minus {rubric.penalty_per_violation} for each" in text
    assert (
        f"S = {rubric.ok_weight}·correctness + {rubric.validity_weight}·validity − {rubric.violation_weight}·(1 − safety)"
        in text
    )
