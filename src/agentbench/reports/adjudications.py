"""Adjudications: reviewers' findings about attempts, appended to `adjudications.jsonl` of the run.

Reviewers use the categories of the failure tags (`taxonomy.jsonl`), which are also those of rejections. In reports, a reviewer's later line about an attempt replaces the earlier one; both stay in the file. Adjudications
never change verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from agentbench.contract.problem import did_you_mean
from agentbench.core.canonical import CanonicalError, canonical, parse_canonical
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.core.reasons import Reason
from agentbench.core.regular_file import open_regular
from agentbench.record.durable import append_line, drop_torn_line
from agentbench.record.naming import ADJUDICATIONS
from agentbench.record.schema import AttemptRecord, Part, Tag
from agentbench.reports.record_rows import Row
from agentbench.statistics.error_rates import Case
from agentbench.verdict.headline import judged_only
from agentbench.verdict.taxonomy import taxonomy

MAX_NOTE = 10_000
UNDECIDED = "evaluation_error"
"""The category of gates without a decision. It says nothing about the patch, so it is never the default for a defect."""

_HARMLESS = ("note", "penalty")
"""Severities of violated rules that fail no gate."""


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
    """The first of `categories`. Older versions wrote the failure reason, or any word for a defect in a patch that passed."""
    categories: tuple[str, ...] | None = None
    """Ids of failure tags: what is wrong with an incorrect patch, or what a correct patch was rejected with. None in older files."""
    reviewer: str
    minutes: float = Field(ge=0)
    note: str = Field(default="", max_length=MAX_NOTE)
    at: str

    @property
    def defects(self) -> tuple[str, ...]:
        """What is wrong with an incorrect patch."""
        return (self.categories or (self.category,)) if self.truth is Truth.INCORRECT else ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A reviewer's finding about an attempt."""

    truth: Truth
    reviewer: str
    minutes: float
    categories: tuple[str, ...] = ()
    """Empty: those with which the attempt was rejected."""
    note: str = ""


def flagged_categories(record: AttemptRecord) -> tuple[str, ...]:
    """Return the categories with which an attempt was rejected: its tags that reject, of gates that did not pass."""
    if record.result.passed:
        return ()
    ids = (
        tag.id for tag in record.tags if tag.gate is not None and not record.gates[tag.gate].passed and _rejects(tag)
    )
    return tuple(dict.fromkeys(ids))


def _rejects(tag: Tag) -> bool:
    kind = taxonomy().get(tag.id)
    return tag.attributes.get("severity") not in _HARMLESS and (kind is None or kind.rejects)


def adjudicate(folder: Path, record: AttemptRecord, finding: Finding) -> Adjudication:
    """Append a finding to the run's adjudications.

    Raises:
        InputError: a category is unknown, missing or contradicts the finding, a value is out of range, or the attempt has no patch
            that could be correct.
        RecordError: the file cannot be written.
    """
    reason = record.result.failure_reason
    judged = judged_only(record.run_status, reason, record.attribution)
    if finding.truth is Truth.CORRECT and record.patch is None and not judged:
        msg = f"{record.task_id}, repeat {record.repeat} ({reason}) has no patch, so nothing can be correct"
        raise InputError(msg, remedy="an attempt without a patch needs no adjudication, or is incorrect or undecidable")
    categories = _categories(record, finding)
    try:
        adjudication = Adjudication(
            adjudication_id=new_ulid(),
            attempt_id=record.attempt_id,
            truth=finding.truth,
            category=categories[0] if categories else "",
            categories=categories,
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
    drop_torn_line(folder / ADJUDICATIONS)
    append_line(folder / ADJUDICATIONS, line)
    return adjudication


def _categories(record: AttemptRecord, finding: Finding) -> tuple[str, ...]:
    """Return the categories of a finding; by default those with which the attempt was rejected."""
    categories, flagged = taxonomy(), flagged_categories(record)
    for category in finding.categories:
        if category not in categories:
            msg = f"unknown category '{category[:100]}'{did_you_mean(category, categories)}"
            raise InputError(msg, remedy=f"categories: {', '.join(categories)}")
        if finding.truth is Truth.CORRECT and category not in flagged:
            msg = f"the attempt was not rejected with {category}, and a correct patch has no other category"
            raise InputError(msg, remedy="leave out --category, or record the patch as incorrect")
    if finding.categories or finding.truth is not Truth.INCORRECT:
        return tuple(dict.fromkeys(finding.categories)) or flagged
    defects = tuple(category for category in flagged if category != UNDECIDED)
    if not defects:
        problem = (
            "a defect in a passed attempt" if record.result.passed else "a defect in an attempt without a decision"
        )
        raise InputError(f"{problem} needs --category, for example --category invariant_violation")
    return defects


def read_adjudications(folder: Path) -> tuple[Adjudication, ...]:
    """Read the latest adjudication of each reviewer and attempt. An incomplete last line is ignored.

    Raises:
        InputError: a line is not an adjudication.
    """
    latest: dict[tuple[str, str], Adjudication] = {}
    path = folder / ADJUDICATIONS
    try:
        with open_regular(path) as file:
            data = file.read()
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


def to_review(rows: Iterable[Row], adjudications: Iterable[Adjudication]) -> tuple[Row, ...]:
    """Return the flagged attempts without an adjudication."""
    adjudicated = {adjudication.attempt_id for adjudication in adjudications}
    return tuple(row for row in rows if row.needs_review and row.attempt_id not in adjudicated)


class Agreement(StrEnum):
    """The combined result of the adjudications of one attempt."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNDECIDABLE = "undecidable"
    DISPUTED = "disputed"
    """Reviewers disagree about the truth or the categories."""
    UNMAPPED = "unmapped"
    """An older version wrote a category that is not in the taxonomy."""


@dataclass(frozen=True, slots=True)
class Review:
    """The adjudications of one attempt."""

    attempt_id: str
    agreement: Agreement
    flagged: tuple[str, ...]
    """Categories with which it was rejected."""
    actual: tuple[str, ...] = ()
    """Categories that it has according to its reviewers."""
    findings: tuple[str, ...] = ()
    """The finding of each reviewer: `incorrect by ada`."""

    def __str__(self) -> str:
        disputed = "disputed: " if self.agreement is Agreement.DISPUTED else ""
        return disputed + ", ".join(self.findings)


def reviews(adjudications: Sequence[Adjudication], records: Iterable[AttemptRecord]) -> tuple[Review, ...]:
    """Combine the adjudications of each of these attempts."""
    by_attempt: dict[str, list[Adjudication]] = {}
    for adjudication in adjudications:
        by_attempt.setdefault(adjudication.attempt_id, []).append(adjudication)
    return tuple(
        _review(flagged_categories(record), by_attempt[record.attempt_id])
        for record in records
        if record.attempt_id in by_attempt
    )


def cases(reviewed: Iterable[Review]) -> tuple[Case, ...]:
    """Return one case per attempt on whose truth and categories the reviewers agree."""
    decided = (review for review in reviewed if review.agreement in {Agreement.CORRECT, Agreement.INCORRECT})
    return tuple(Case(frozenset(review.flagged), frozenset(review.actual)) for review in decided)


def _review(flagged: tuple[str, ...], adjudications: Sequence[Adjudication]) -> Review:
    attempt_id = adjudications[0].attempt_id
    findings = {(adjudication.truth, _actual(adjudication, flagged)) for adjudication in adjudications}
    stated = tuple(f"{adjudication.truth} by {adjudication.reviewer}" for adjudication in adjudications)
    if len(findings) > 1:
        return Review(attempt_id, Agreement.DISPUTED, flagged, findings=stated)
    ((truth, actual),) = findings
    if actual is None:
        return Review(attempt_id, Agreement.UNMAPPED, flagged, findings=stated)
    return Review(attempt_id, Agreement(truth), flagged, tuple(sorted(actual)), stated)


def _actual(adjudication: Adjudication, flagged: tuple[str, ...]) -> frozenset[str] | None:
    """Return the categories that an attempt has according to one reviewer; None if they are not in the taxonomy."""
    if adjudication.truth is not Truth.INCORRECT:
        return frozenset()
    if adjudication.categories is None and flagged and adjudication.category in set(Reason):
        return frozenset(flagged) - {UNDECIDED} or None
    categories = frozenset(adjudication.categories or (adjudication.category,))
    return categories if categories <= taxonomy().keys() else None
