"""Adjudications: reviewers' findings about attempts, appended to `adjudications.jsonl` of the run.

In reports, a reviewer's later line about an attempt replaces the earlier one; both stay in the file. Adjudications
never change verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from agentbench.core.canonical import CanonicalError, canonical, parse_canonical
from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.record.durable import append_line, drop_torn_line
from agentbench.record.schema import Part
from agentbench.reports.record_rows import Row
from agentbench.statistics.error_rates import Case

FILE = "adjudications.jsonl"
MAX_NOTE = 10_000


class Truth(StrEnum):
    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDABLE = "undecidable"


class Adjudication(Part):
    schema_version: Literal[1] = 1
    adjudication_id: str
    attempt_id: str
    truth: Truth
    category: str
    """The failure reason, or the kind of defect in a patch that passed."""
    reviewer: str
    minutes: float = Field(ge=0)
    note: str = Field(default="", max_length=MAX_NOTE)
    at: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A reviewer's finding about an attempt."""

    truth: Truth
    reviewer: str
    minutes: float
    category: str | None = None
    note: str = ""


def adjudicate(folder: Path, row: Row, finding: Finding) -> Adjudication:
    """Append a finding to the run's adjudications.

    Raises:
        InputError: a defect in a passed attempt has no category, or a value is out of range.
        RecordError: the file cannot be written.
    """
    if row.passed and finding.truth is Truth.INCORRECT and not finding.category:
        raise InputError("a defect in a passed attempt needs --category, for example --category invariant_violation")
    try:
        adjudication = Adjudication(
            adjudication_id=new_ulid(),
            attempt_id=row.attempt_id,
            truth=finding.truth,
            category=finding.category or str(row.reason or ""),
            reviewer=finding.reviewer,
            minutes=finding.minutes,
            note=finding.note,
            at=now_iso(),
        )
        line = canonical(adjudication.model_dump(mode="json"))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except CanonicalError as error:
        raise InputError(f"invalid text in the note or a name: {error}") from None
    drop_torn_line(folder / FILE)
    append_line(folder / FILE, line)
    return adjudication


def read_adjudications(folder: Path) -> tuple[Adjudication, ...]:
    """Read the latest adjudication of each reviewer and attempt. An incomplete last line is ignored.

    Raises:
        InputError: a line is not an adjudication.
    """
    latest: dict[tuple[str, str], Adjudication] = {}
    path = folder / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    for number, raw in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            adjudication = Adjudication.model_validate(parse_canonical(raw))
        except (CanonicalError, ValidationError) as error:
            raise InputError(f"{path}:{number}: not an adjudication: {str(error).splitlines()[0]}") from None
        latest[adjudication.reviewer, adjudication.attempt_id] = adjudication
    return tuple(latest.values())


def cases(adjudications: Sequence[Adjudication], rows: Sequence[Row]) -> tuple[Case, ...]:
    """Return one case per decidable adjudication of these rows."""
    if not adjudications:
        return ()
    passed = {row.attempt_id: row.passed for row in rows}
    return tuple(
        Case(
            adjudication.category,
            passed=passed[adjudication.attempt_id],
            correct=adjudication.truth is Truth.CORRECT,
        )
        for adjudication in adjudications
        if adjudication.attempt_id in passed and adjudication.truth is not Truth.UNDECIDABLE
    )
