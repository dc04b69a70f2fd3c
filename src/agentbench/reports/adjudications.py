"""What people found out about attempts: `adjudications.jsonl` of a run, one line each, only ever appended to.

A later line about the same attempt by the same reviewer replaces the earlier one in reports; both stay in the file.
Verdicts are never changed by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from agentbench.core.canonical import CanonicalError, canonical, parse_canonical
from agentbench.core.errors import InputError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.record.durable import append_line, drop_torn_line, failed
from agentbench.record.schema import Part
from agentbench.reports.record_rows import Row
from agentbench.statistics.error_rates import Case

FILE = "adjudications.jsonl"
LONGEST_NOTE = 10_000


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
    """What an error of the verdict belongs to: the failure reason, or the kind of defect that escaped."""
    reviewer: str
    minutes: float = Field(ge=0)
    note: str = Field(default="", max_length=LONGEST_NOTE)
    at: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a reviewer says about an attempt."""

    truth: Truth
    reviewer: str
    minutes: float
    category: str | None = None
    note: str = ""


def adjudicate(folder: Path, row: Row, finding: Finding) -> Adjudication:
    """Append one finding about an attempt.

    Raises:
        InputError: a defect that escaped without its category, or a value out of range.
        RecordError: it could not be written.
    """
    if row.passed and finding.truth is Truth.INCORRECT and not finding.category:
        msg = "the attempt passed and you found a defect: name its kind with --category (such as invariant_violation)"
        raise InputError(msg)
    try:
        found = Adjudication(
            adjudication_id=new_ulid(),
            attempt_id=row.attempt_id,
            truth=finding.truth,
            category=finding.category or str(row.reason or ""),
            reviewer=finding.reviewer,
            minutes=finding.minutes,
            note=finding.note,
            at=now_iso(),
        )
        line = canonical(found.model_dump(mode="json"))
    except ValidationError as error:
        first = error.errors()[0]
        msg = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise InputError(msg) from None
    except CanonicalError as error:
        msg = f"the note or a name is {error}"
        raise InputError(msg) from None
    drop_torn_line(folder / FILE)
    append_line(folder / FILE, line)
    return found


def read_adjudications(folder: Path) -> tuple[Adjudication, ...]:
    """Everything found so far, the latest of each reviewer and attempt. A torn last line is none.

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
        raise failed("read", path, error) from error
    for number, raw in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            one = Adjudication.model_validate(parse_canonical(raw))
        except (CanonicalError, ValidationError) as error:
            msg = f"{path}:{number}: not an adjudication: {str(error).splitlines()[0]}"
            raise InputError(msg) from None
        latest[one.reviewer, one.attempt_id] = one
    return tuple(latest.values())


def cases(found: Sequence[Adjudication], rows: Sequence[Row]) -> tuple[Case, ...]:
    """What can be counted: attempts of these rows that somebody could decide, one case per finding."""
    if not found:
        return ()
    passed = {row.attempt_id: row.passed for row in rows}
    return tuple(
        Case(one.category, passed=passed[one.attempt_id], correct=one.truth is Truth.CORRECT)
        for one in found
        if one.attempt_id in passed and one.truth is not Truth.UNDECIDABLE
    )
