"""The signed statement about a run: an in-toto Statement v1 in canonical JSON.

Subjects are files of the run by SHA-256, and `events.jsonl#head`, the head of the run's chain, which in turn seals every file
of every attempt. `events.jsonl` is the file as it was signed; only the event of a deletion (`ab retain`) may follow.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import agentbench
from agentbench.core.canonical import CanonicalError, canonical, parse_strict
from agentbench.core.errors import InputError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import RunStatus
from agentbench.record.attempt_folder import EVENTS, FILES, RECORD, hash_file
from agentbench.record.kept_rules import RULES
from agentbench.record.naming import ADJUDICATIONS, PAGES, SIGNATURES
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.events import AttemptSealed, RunReduced
from agentbench.trace.log import read_events, tail

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:agentbench:run:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
HEAD = f"{EVENTS}#head"
REGISTRATION = "registration:"
"""Prefix of the subject that names a registration, which is not part of the run directory."""

LATER = frozenset({PAGES, ADJUDICATIONS})
"""Names that `ab report` and `ab adjudicate` add to a finished run. No signature covers them."""


class BadStatement(ValueError):
    """A payload that is not a statement about a run; the message says why."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Subject(_Model):
    name: str
    digest: Mapping[str, str]


class Chain(_Model):
    """The run's chain when it was signed."""

    head: str
    events: int
    bytes: int


class Verdicts(_Model):
    """Counts of final records."""

    attempts: int
    passed: int
    invalid: int
    reasons: Mapping[str, int]


class Predicate(_Model):
    run_id: str
    study_id: str
    suite: str
    variant: str
    harness_version: str
    """Version that made the run."""
    signed_with: str
    """Version that signed it."""
    signed_at: str
    chain: Chain
    reduced: bool
    """Bulky evidence had been deleted before."""
    config_classes: tuple[str, ...]
    contracts: Mapping[str, str]
    """Contract of each task."""
    verdicts: Verdicts
    registration: Subject | None = None


class Statement(_Model):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    predicate_type: Literal["urn:agentbench:run:v1"] = Field(alias="predicateType")
    subject: tuple[Subject, ...]
    predicate: Predicate

    def files(self) -> dict[str, str]:
        """Return the signed files of the run with their SHA-256."""
        return {
            subject.name: subject.digest.get("sha256", "")
            for subject in self.subject
            if subject.name != HEAD and not subject.name.startswith(REGISTRATION)
        }


def describe_run(
    run: Path, registration: Path | None = None, *, signed_at: str | None = None, signed_with: str | None = None
) -> bytes:
    """Return the statement about a closed run, as the bytes to sign. The caller has verified the run.

    `signed_at` and `signed_with` are those of an earlier signature whose statement a further key signs.

    Raises:
        InputError: `registration` cannot be read.
        RecordError: the run cannot be read.
    """
    last = tail(run / EVENTS)
    subjects = {name: hash_file(run / name)[0] for name in covered_files(run)}
    registered = registration_subject(registration) if registration else None
    predicate = Predicate(
        signed_with=signed_with or agentbench.__version__,
        signed_at=signed_at or now_iso(),
        chain=Chain(head=last.head, events=last.count, bytes=last.size),
        reduced=next(read_events(run / EVENTS, types={RunReduced.type}), None) is not None,
        registration=registered,
        **summarise(run),
    )
    listed = [Subject(name=HEAD, digest={"sha256": last.head.removeprefix("sha256:")})]
    listed += [Subject(name=name, digest={"sha256": sha256}) for name, sha256 in sorted(subjects.items())]
    listed += [registered] if registered else []
    statement = Statement(
        type=STATEMENT_TYPE, predicate_type=PREDICATE_TYPE, subject=tuple(listed), predicate=predicate
    )
    return canonical(statement.model_dump(mode="json", by_alias=True))


def read_statement(payload: bytes) -> Statement:
    """Parse a statement about a run.

    Raises:
        BadStatement: it is something else.
    """
    try:
        return Statement.model_validate(parse_strict(payload))
    except CanonicalError as error:
        raise BadStatement(f"contains no statement: {error}") from None
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, detail["loc"]))
        raise BadStatement(f"is not a statement about a run: {place}: {detail['msg']}") from None


def covered_files(run: Path) -> Iterator[str]:
    """Yield the files of a run that a statement lists: those of the run itself, and the seals of every attempt."""
    for entry in sorted(run.iterdir()):
        if entry.name not in SIGNATURES | LATER and stat.S_ISREG(entry.lstat().st_mode):
            yield entry.name
    rules = run / RULES
    yield from sorted(f"{RULES}/{entry.name}" for entry in rules.iterdir()) if rules.is_dir() else ()
    for event in read_events(run / EVENTS, types={AttemptSealed.type}):
        if isinstance(event.payload, AttemptSealed):
            yield f"{event.payload.task_dir}/{RECORD}"
            yield f"{event.payload.task_dir}/{FILES}"


class Summary(TypedDict):
    """The members of the predicate that follow from `run.json` and the records alone."""

    run_id: str
    study_id: str
    suite: str
    variant: str
    harness_version: str
    config_classes: tuple[str, ...]
    contracts: dict[str, str]
    verdicts: Verdicts


def summarise(path: Path) -> Summary:
    """
    Raises:
        InputError, RecordError: the run cannot be read.
    """
    run = RunDirectory.open(path)
    classes: set[str] = set()
    contracts: dict[str, str] = {}
    reasons: Counter[str] = Counter()
    attempts = passed = invalid = 0
    for record in run.finals():
        classes.add(record.config_class or "")
        contracts[record.task_id] = record.contract_id
        attempts += 1
        passed += record.result.passed
        invalid += record.run_status is RunStatus.INVALID
        if record.result.failure_reason is not None:
            reasons[record.result.failure_reason] += 1
    verdicts = Verdicts(attempts=attempts, passed=passed, invalid=invalid, reasons=dict(sorted(reasons.items())))
    return {
        "run_id": run.run_id,
        "study_id": run.study_id,
        "suite": str(run.meta.get("suite", "")),
        "variant": str(run.meta.get("variant", "")),
        "harness_version": str(run.meta.get("harness_version", "")),
        "config_classes": tuple(sorted(classes)),
        "contracts": contracts,
        "verdicts": verdicts,
    }


def registration_subject(path: Path) -> Subject:
    """Return the subject that names a registration.

    Raises:
        InputError: it cannot be read.
    """
    if not path.is_file():
        raise InputError(f"registration {path} is not a file")
    return Subject(name=f"{REGISTRATION}{path.name}", digest={"sha256": hash_file(path)[0]})
