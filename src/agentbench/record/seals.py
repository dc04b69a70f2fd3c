"""Compares records with their seals while reports read them: one hash per record and one per event of the run.

`ab verify` checks everything; this checks only that `run.json` and `attempts.jsonl` are what the run's chain sealed, so that no
report shows an edited verdict without saying so. `altered_origins` checks the files that describe a task, `altered_evidence` checks the files of one attempt, for pages that show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json

from agentbench.core.canonical import CanonicalError, canonical, parse_canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.core.regular_file import MAX_LINE, open_regular
from agentbench.record.attempt_folder import EVENTS, FILES, MANIFEST, TASK_FILE, content, is_task_dir
from agentbench.record.naming import ATTEMPTS, RUN_JSON
from agentbench.record.schema import UNSEALED, AttemptRecord
from agentbench.trace.chain import GENESIS, BadLine, Line, read_line
from agentbench.trace.events import AttemptSealed, RunClosed, RunOpened, RunReduced, RunResumed

_UNSEALED_MEMBERS = re.compile(rb',"final":(?:true|false)(?=,)|,"trace_head":(?:null|"[^"\\]*")(?=,)')


class AlteredRecord(NamedTuple):
    """A record that is not the one that was sealed, or a place where the seals themselves were changed."""

    place: str
    attempt_id: str | None
    why: str

    def __str__(self) -> str:
        return f"{self.place} {self.why}"


class Seal(NamedTuple):
    """The members of the event `attempt_sealed`."""

    attempt_id: str
    task_dir: str
    events: int
    head: str
    record_sha256: str
    files_sha256: str


@dataclass(slots=True)
class SealCheck:
    """The seals of a run, and the records compared with them so far."""

    seals: Mapping[str, Seal]
    present: bool
    """False for a run directory without a chain, whose records cannot be compared with anything."""
    closed: bool
    broken: AlteredRecord | None
    """The first event of the run's chain that does not hold."""
    run_json: AlteredRecord | None = None
    """How `run.json` differs from when the run was opened."""
    reduced: frozenset[str] = frozenset()
    """Attempts whose bulky evidence was deleted with the run's approval."""
    _altered: list[AlteredRecord] = field(default_factory=list)
    _not_sealed_yet: list[str] = field(default_factory=list)
    _lines: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Line and finality of every record."""
    _supersedes: dict[str, str] = field(default_factory=dict)

    def compare(self, number: int, raw: bytes, attempt_id: str, *, final: bool, supersedes: str | None) -> None:
        """Compare one line of `attempts.jsonl`, given without its newline, with its seal."""
        if not self.present:
            return
        if attempt_id in self._lines:
            self._altered.append(_record(number, attempt_id, "is a second record of the same attempt"))
            return
        self._lines[attempt_id] = (number, final)
        if supersedes is not None:
            self._supersedes[supersedes] = attempt_id
        seal = self.seals.get(attempt_id)
        if seal is None:
            if self.closed or self.broken:
                self._altered.append(_record(number, attempt_id, "was never sealed"))
            else:
                self._not_sealed_yet.append(attempt_id)
        elif _sealed_sha256(raw) != seal.record_sha256:
            self._altered.append(_record(number, attempt_id, "differs from its seal"))
        elif b'"trace_head":"%b"' % seal.head.encode() not in raw:
            self._altered.append(_record(number, attempt_id, "has another trace_head than its seal"))

    def altered(self) -> tuple[AlteredRecord, ...]:
        """Return everything that differs, once all records were compared."""
        if not self.present:
            return ()
        of_run = (record for record in (self.broken, self.run_json) if record)
        return (*of_run, *self._altered, *self._finality(), *self._missing())

    def not_sealed_yet(self) -> tuple[str, ...]:
        """Return the attempts that a run which is not closed has not sealed."""
        return tuple(self._not_sealed_yet)

    def _finality(self) -> Iterator[AlteredRecord]:
        for attempt_id, (number, final) in self._lines.items():
            if final and attempt_id in self._supersedes:
                yield _record(number, attempt_id, "is marked final, but another record supersedes it")
            elif not final and attempt_id not in self._supersedes:
                yield _record(number, attempt_id, "is marked not final, but no record supersedes it")

    def _missing(self) -> Iterator[AlteredRecord]:
        for attempt_id in self.seals:
            if attempt_id not in self._lines:
                yield AlteredRecord(ATTEMPTS, attempt_id, f"lacks the sealed record of attempt {attempt_id}")


def read_seals(folder: Path) -> SealCheck:
    """Read the seals from the run's chain, up to the first event that does not hold.

    Raises:
        RecordError: the chain or `run.json` cannot be read.
    """
    reader = _ChainReader(folder)
    broken, head = None, GENESIS
    try:
        with open_regular(folder / EVENTS) as file:
            for count, raw in enumerate(file, start=1):
                if not raw.endswith(b"\n") and len(raw) < MAX_LINE:
                    break
                try:
                    line = read_line(raw[:-1])
                except BadLine:
                    line = None
                problem = "breaks the hash chain that seals the records"
                if line is not None and line.prev == head and line.seq == count and line.computed() == line.hash:
                    head, problem = line.hash, reader.read(line)
                if problem:
                    broken = AlteredRecord(f"{EVENTS}:{count}", None, problem)
                    break
    except FileNotFoundError:
        pass
    except OSError as error:
        raise RecordError.of("read", folder / EVENTS, error) from error
    present = head != GENESIS or broken is not None
    return SealCheck(reader.seals, present, reader.closed, broken, reader.run_json, reader.reduced)


class _ChainReader:
    """Collects the seals from the events of a run's chain."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seals: dict[str, Seal] = {}
        self.closed = False
        self.run_json: AlteredRecord | None = None
        self.reduced: frozenset[str] = frozenset()

    def read(self, line: Line) -> str:
        """Read one event and return why it cannot be part of the chain; empty if it can."""
        if self.closed and line.type not in {RunResumed.type, RunReduced.type}:
            return "follows the closing record of the run"
        self.closed = line.type == RunClosed.type or (self.closed and line.type == RunReduced.type)
        if line.type == RunReduced.type:
            self.reduced = frozenset(self.seals)
        elif line.type == RunOpened.type:
            self._compare_run_json(line)
        elif line.type == AttemptSealed.type:
            value = from_json(line.payload)
            seal = Seal(*(value.get(name) for name in Seal._fields))
            if None in seal or seal.attempt_id in self.seals:
                return "is not a seal of its own"
            self.seals[seal.attempt_id] = seal
        return ""

    def _compare_run_json(self, line: Line) -> None:
        expected, data = from_json(line.payload).get("run_json_sha256"), content(self._folder / RUN_JSON)
        if expected and data is not None and sha256_hex(data) != expected:
            self.run_json = AlteredRecord(RUN_JSON, None, "differs from when the run was opened")


class ComparedRecords(NamedTuple):
    """All records of a run, compared with their seals."""

    altered: tuple[AlteredRecord, ...]
    """Records that differ, and lines that are not records."""
    sealed: bool
    """False if the run has no seals at all."""
    not_sealed_yet: tuple[str, ...]
    """Attempts that a run with seals has not sealed."""


def compare_records(folder: Path) -> ComparedRecords:
    """Compare all records of a run with their seals.

    Raises:
        RecordError: a file cannot be read.
    """
    seals = read_seals(folder)
    malformed = []
    try:
        with open_regular(folder / ATTEMPTS) as file:
            for number, raw in enumerate(file, start=1):
                try:
                    value = from_json(raw)
                    attempt_id, final, supersedes = value["attempt_id"], value["final"], value["supersedes"]
                except (ValueError, TypeError, KeyError):
                    if not raw.endswith(b"\n") and len(raw) < MAX_LINE:
                        break
                    malformed.append(AlteredRecord(f"{ATTEMPTS}:{number}", None, "is not a record"))
                    continue
                if raw.endswith(b"\n"):
                    seals.compare(number, raw[:-1], attempt_id, final=final, supersedes=supersedes)
                else:
                    # Reports ignore a line that is not complete; other readers may not.
                    malformed.append(_record(number, attempt_id, "is not a complete line"))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise RecordError.of("read", folder / ATTEMPTS, error) from error
    return ComparedRecords((*seals.altered(), *malformed), seals.present, seals.not_sealed_yet())


def altered_evidence(folder: Path, record: AttemptRecord, seal: Seal, *, reduced: bool) -> AlteredRecord | None:
    """Compare the log and all files of one attempt with its seal, and return the first difference.

    Nothing is compared if the run sealed no files of the attempt, or if its folder is missing: then no report can show
    anything of it.
    """
    if not seal.files_sha256 or (is_task_dir(seal.task_dir) and not (folder / seal.task_dir).exists()):
        return None
    from agentbench.record.attempt_audit import AuditTerms, audit_attempt  # noqa: PLC0415 - few reports show evidence

    audit = audit_attempt(folder, AttemptSealed(**seal._asdict()), record, AuditTerms(None, reduced=reduced))
    if not audit.problems:
        return None
    problem = audit.problems[0]
    return AlteredRecord(problem.place, record.attempt_id, f"is {problem.kind}: {problem.message}")


def altered_origins(folder: Path, seals: SealCheck, attempts: Iterable[str]) -> Iterator[AlteredRecord]:
    """Compare the manifests and task files of some attempts with their seals.

    Reports read sources, caps and protocol deviations from them, and would show too few if a folder is missing.

    Raises:
        RecordError: a file cannot be read.
    """
    for attempt_id in attempts:
        seal = seals.seals.get(attempt_id)
        if seal is None or not seal.files_sha256:
            continue
        if not is_task_dir(seal.task_dir):
            yield AlteredRecord(EVENTS, attempt_id, f"seals {seal.task_dir!r}, which is not an attempt folder")
            continue
        if not (place := folder / seal.task_dir).is_dir():
            yield AlteredRecord(seal.task_dir, attempt_id, "is missing")
            continue
        data = content(place / FILES)
        sealed = data if data is not None and sha256_hex(data) == seal.files_sha256 else None
        listed = {} if sealed is None else from_json(sealed)["files"]
        for name in (FILES,) if sealed is None else (MANIFEST, TASK_FILE):
            text = content(place / name)
            if name == FILES or (name in listed and (text is None or sha256_hex(text) != listed[name]["sha256"])):
                why = "is missing" if text is None else "differs from its seal"
                yield AlteredRecord(f"{seal.task_dir}/{name}", attempt_id, why)


def altered_logs(folder: Path) -> Iterator[AlteredRecord]:
    """Compare the logs of all attempts with their seals, for answers that are computed from events.

    Raises:
        RecordError: a file cannot be read.
    """
    seals = read_seals(folder)
    if not seals.present:
        return
    sealed = {seal.task_dir for seal in seals.seals.values()}
    for seal in seals.seals.values():
        if not seal.files_sha256:
            continue
        place = f"{seal.task_dir}/{EVENTS}"
        if not is_task_dir(seal.task_dir):
            yield AlteredRecord(EVENTS, seal.attempt_id, f"seals {seal.task_dir!r}, which is not an attempt folder")
        elif why := _log_problem(folder / place, seal):
            yield AlteredRecord(place, seal.attempt_id, why)
    for path in sorted(folder.glob(f"tasks/*/{EVENTS}")) if seals.closed else ():
        if (task_dir := str(path.parent.relative_to(folder))) not in sealed:
            yield AlteredRecord(f"{task_dir}/{EVENTS}", None, "was never sealed")


def _log_problem(path: Path, seal: Seal) -> str:
    head, count = GENESIS, 0
    try:
        with open_regular(path) as file:
            for count, raw in enumerate(file, start=1):
                line = read_line(raw.removesuffix(b"\n"))
                if line.prev != head or line.seq != count or line.computed() != line.hash:
                    return "differs from its seal"
                head = line.hash
    except BadLine:
        return "differs from its seal"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    return "" if (head, count) == (seal.head, seal.events) else "differs from its seal"


def _record(number: int, attempt_id: str, why: str) -> AlteredRecord:
    return AlteredRecord(f"{ATTEMPTS}:{number}", attempt_id, why)


def _sealed_sha256(raw: bytes) -> str:
    """Return the digest of the sealed part of a line."""
    body, removed = _UNSEALED_MEMBERS.subn(b"", raw)
    if removed == len(UNSEALED):
        return sha256_hex(body)
    # Members of these names are also elsewhere in the record.
    try:
        value = parse_canonical(raw)
    except CanonicalError:
        return ""
    if not isinstance(value, Mapping):
        return ""
    return sha256_hex(canonical({key: inner for key, inner in value.items() if key not in UNSEALED}))
