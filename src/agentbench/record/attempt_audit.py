"""The audit of one attempt.

What is held against what:

    events.jsonl     its own chain and closing record; head and length ← attempt_sealed and the record
    every file       ← meta/files.json ← attempt_sealed.files_sha256 (repo/ is a copy, not evidence)
    manifest.json    ← identity_bound.manifest_sha256
    blobs/<sha256>   ← its name; every blob an event points to is there
    the patch        ← patch_extracted.sha256 and the record
    the record       ← attempt_closed.record_sha256; its checks ← acceptance_check events, one for each mandatory check
    the verdict      ← computed again from the events, when the caller can
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.canonical import CanonicalError, Json, parse_canonical, sha256_hex
from agentbench.core.errors import RecordError
from agentbench.core.reasons import RunStatus
from agentbench.policy.monitors import RuleSet
from agentbench.record.attempt_folder import EVENTS, FILES, MANIFEST, content, evidence_files, hash_file
from agentbench.record.manifest import Manifest, read_manifest
from agentbench.record.recompute import Kept, Recomputed
from agentbench.record.retention import reducible
from agentbench.record.schema import AttemptRecord
from agentbench.trace.chain import Event, Line
from agentbench.trace.json_safe import sound
from agentbench.trace.log import read_events
from agentbench.trace.run_events import AttemptSealed
from agentbench.trace.verify import ChainReport, Kind, Problem, verify_log

Recompute = Callable[[Iterable[Event], Manifest, AttemptRecord, Kept], Recomputed]
"""Computes the verdict and the decisions of breakers again and says how the record and the log differ from them."""

_TASK_DIR = re.compile(r"tasks/[A-Za-z0-9][A-Za-z0-9._-]{0,127}(@r[0-9]+(a[0-9]+)?)?")
_BLOB = re.compile(rb'"blob":"([0-9a-f]{64})"')
"""In a payload's own JSON; inside a string its quotes would be escaped."""


@dataclass(slots=True)
class AttemptAudit:
    """What was found about one attempt."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    """What could not be computed again, and why."""
    chain: ChainReport | None = None
    recomputed: int = 0


@dataclass(slots=True)
class _Trace:
    """What an attempt's events say that other files must agree with."""

    opened: Mapping[str, Json] = field(default_factory=dict)
    manifest_sha256: str | None = None
    patch: Mapping[str, Json] | None = None
    decided: Mapping[str, Json] | None = None
    acceptance: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    mutated: set[str] = field(default_factory=set)

    def look(self, line: Line, value: Mapping[str, Json]) -> None:
        for name in _BLOB.findall(line.payload):
            self.blobs.setdefault(name.decode(), line.seq)
        match line.type:
            case "attempt_opened":
                self.opened = value
            case "identity_bound":
                self.manifest_sha256 = str(value.get("manifest_sha256"))
            case "patch_extracted":
                self.patch = value
            case "gates_decided":
                self.decided = value
            case "acceptance_check":
                check = str(value.get("check_id"))
                self.acceptance[check] += 1
                self.outcomes[check] = str(value.get("outcome"))
            case "workspace_mutated" | "patch_applied":
                self.mutated.update(_paths(value))
            case _:
                pass


@dataclass(frozen=True, slots=True)
class Terms:
    """By what all attempts of a run are audited."""

    recompute: Recompute | None
    rules: Callable[[str], RuleSet | None] = lambda _name: None
    """The rules of monitors that the run keeps, by their digest."""
    reduced: bool = False
    """The run's chain says that no more than minimal evidence is kept."""


def audit_attempt(run: Path, sealed: AttemptSealed, record: AttemptRecord | None, terms: Terms) -> AttemptAudit:
    """Audit the folder of a sealed attempt. `record` is its line in `attempts.jsonl`, None when that is missing."""
    work = _Work(run, sealed, record, terms)
    folder = run / sealed.task_dir
    if not _TASK_DIR.fullmatch(sealed.task_dir) or folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        work.found("changed", "", "is not an attempt's folder")
    elif not folder.exists():
        work.found("removed", "", f"the folder of attempt {sealed.attempt_id} is missing")
    else:
        try:
            work.examine(terms.recompute)
        except RecordError as error:
            work.found("missing", "", error.message)
    return work.audit


class _Work:
    def __init__(self, run: Path, sealed: AttemptSealed, record: AttemptRecord | None, terms: Terms) -> None:
        self.terms = terms
        self.reduced = terms.reduced
        self.folder = run / sealed.task_dir
        self.sealed = sealed
        self.record = record
        self.trace = _Trace()
        self.audit = AttemptAudit()

    def found(self, kind: Kind, name: str, message: str) -> None:
        place = f"{self.sealed.task_dir}/{name}" if name else self.sealed.task_dir
        self.audit.problems.append(Problem(kind, place, message))

    def examine(self, recompute: Recompute | None) -> None:
        whole = self._log()
        self._files()
        self._blobs()
        if not whole or self.record is None:
            return
        self._identity(self.record)
        self._patch(self.record)
        manifest = self._manifest(self.record)
        self._acceptance(self.record, manifest)
        self._decision(self.record)
        if recompute and manifest is None and not self.audit.problems:
            self.audit.notes.append(f"{self.sealed.task_dir}: no manifest, so the verdict was not computed again")
        if recompute and manifest and not self.audit.problems:
            self.audit.recomputed = 1
            kept = Kept(self._blob_text, self.terms.rules, self.reduced and bool(self.trace.blobs))
            again = recompute(read_events(self.folder / EVENTS), manifest, self.record, kept)
            self.audit.skipped = again.skipped
            for difference in again.differences:
                self.found("inconsistent", EVENTS, f"computed again, it differs: {difference}")

    def _blob_text(self, name: str) -> str | None:
        data = content(self.folder / "blobs" / name) if name.isalnum() else None
        return None if data is None else data.decode("utf-8", "replace")

    def _log(self) -> bool:
        """The chain, its end, and the run's seal of it."""
        path = self.folder / EVENTS
        if not path.is_file():
            self.found("removed", EVENTS, "the attempt's log is missing")
            return False
        report = verify_log(path, name=f"{self.sealed.task_dir}/{EVENTS}", watch=self.trace.look)
        self.audit.chain = report.chain
        if report.problem or report.closing is None:
            if report.problem:
                self.audit.problems.append(report.problem)
            return False
        if (report.chain.head, report.chain.events) != (self.sealed.head, self.sealed.events):
            self.found("changed", EVENTS, "a whole chain, but not the one that the run sealed: it was rewritten")
            return False
        if report.closing.record_sha256 != self.sealed.record_sha256:
            self.found("inconsistent", EVENTS, "closed over another record than the run sealed")
        if not report.opened:
            self._unopened()
        return True

    def _unopened(self) -> None:
        """An attempt that failed before it could say what it is about has no opening record; it cannot be scored."""
        if self.record is not None and not _scorable(self.record):
            self.audit.notes.append(f"{self.sealed.task_dir}: the attempt ended before it was opened")
        else:
            self.found("missing", f"{EVENTS}:1", "an attempt's log begins with attempt_opened")

    def _files(self) -> None:
        """Every evidence file against the sealed list."""
        data = content(self.folder / FILES)
        if data is None:
            self.found("removed", FILES, "the list of evidence files is missing")
            return
        if sha256_hex(data) != self.sealed.files_sha256:
            self.found("changed", FILES, "not the list that the run sealed")
            return
        listed = _listed(data)
        there = {sound(name): name for name in evidence_files(self.folder)}
        for name in sorted(listed.keys() | there.keys()):
            if name not in there:
                if not (self.reduced and reducible(name)):
                    self.found("removed", name, "the file is missing")
            elif name not in listed:
                self.found("appended", name, "the file was not there when the attempt was sealed")
            elif hash_file(self.folder / there[name])[0] != listed[name]:
                self.found("changed", name, "the content is not what was sealed")

    def _blobs(self) -> None:
        for name, seq in self.trace.blobs.items():
            path = self.folder / "blobs" / name
            if not path.is_file():
                if not self.reduced:
                    self.found("removed", f"blobs/{name}", f"event {seq} points to it, and it is missing")
            elif hash_file(path)[0] != name:
                self.found("changed", f"blobs/{name}", "the content is not what its name says")

    def _identity(self, record: AttemptRecord) -> None:
        for name in ("attempt_id", "run_id", "task_id", "contract_id", "task_digest", "supersedes"):
            if self.trace.opened and self.trace.opened.get(name) != getattr(record, name):
                self.found("inconsistent", f"{EVENTS}:1", f"{name} is not the record's")
        if record.artifact_paths.task_dir != self.sealed.task_dir:
            self.found("inconsistent", "", f"the record names {record.artifact_paths.task_dir} as its folder")

    def _manifest(self, record: AttemptRecord) -> Manifest | None:
        path = self.folder / MANIFEST
        if not path.is_file():
            if _scorable(record) or self.trace.manifest_sha256:
                self.found("missing", MANIFEST, "a run without a manifest cannot be scored")
            return None
        if self.trace.manifest_sha256 and hash_file(path)[0] != self.trace.manifest_sha256:
            self.found("changed", MANIFEST, "not the manifest that was bound before the agent acted")
            return None
        if _scorable(record) and not self.trace.manifest_sha256:
            self.found("missing", EVENTS, "no identity_bound event: the run cannot be scored")
        try:
            return read_manifest(path)
        except RecordError as error:
            self.found("inconsistent", MANIFEST, error.message)
            return None

    def _patch(self, record: AttemptRecord) -> None:
        extracted = self.trace.patch
        if record.patch is None:
            if extracted is not None and _scorable(record):
                self.found("inconsistent", EVENTS, "a patch was extracted, and the record has none")
            return
        prefix = f"{self.sealed.task_dir}/"
        name = record.patch.path.removeprefix(prefix)
        if not record.patch.path.startswith(prefix) or ".." in Path(name).parts:
            self.found("inconsistent", "", f"the record's patch {record.patch.path!r} is not in the attempt's folder")
            return
        path = self.folder / name
        if not path.is_file():
            self.found("removed", name, "the record's patch is missing")
        elif hash_file(path)[0] != record.patch.sha256:
            self.found("changed", name, "not the patch of the record")
        if extracted is None or extracted.get("sha256") != record.patch.sha256:
            self.found("inconsistent", EVENTS, "patch_extracted does not name the patch of the record")
        elif not extracted.get("omitted"):
            missed = sorted(_paths(extracted) - self.trace.mutated)
            if missed:
                more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
                self.audit.notes.append(f"{self.sealed.task_dir}: no mutation event covers {missed[0]}{more}")

    def _acceptance(self, record: AttemptRecord, manifest: Manifest | None) -> None:
        """E-08: a scorable run has exactly one acceptance event for each mandatory check."""
        for check in record.checks:
            if self.trace.outcomes.get(check.id, check.outcome) != check.outcome:
                self.found("inconsistent", EVENTS, f"check {check.id} is not {check.outcome} in the trace")
        if not _scorable(record):
            return
        planned = manifest.protocol_manifest.planned.acceptance if manifest else ()
        wanted = {check.id for check in planned if check.mandatory} | {one.id for one in record.checks if one.mandatory}
        for check_id in sorted(wanted):
            times = self.trace.acceptance[check_id]
            if times != 1:
                what = "no acceptance event" if times == 0 else f"{times} acceptance events"
                self.found("missing", EVENTS, f"{what} for mandatory check {check_id}: the run cannot be scored")

    def _decision(self, record: AttemptRecord) -> None:
        decided = self.trace.decided
        if decided is None:
            if _scorable(record):
                self.found("missing", EVENTS, "no gates_decided event: the verdict stands on nothing")
            return
        said: dict[str, Json] = {
            "run_status": record.run_status,
            "reason": record.result.failure_reason,
            "passed": record.result.passed,
            "invalid_cause": record.invalid_cause,
            "attribution": record.attribution,
        }
        for name, value in said.items():
            if decided.get(name) != value:
                self.found("inconsistent", EVENTS, f"{name} is {decided.get(name)} in the trace, {value} in the record")


def _scorable(record: AttemptRecord) -> bool:
    return record.run_status is not RunStatus.INVALID


def _paths(value: Mapping[str, Json]) -> set[str]:
    files = value.get("files")
    if not isinstance(files, list):
        return set()
    return {str(one.get("path")) for one in files if isinstance(one, Mapping)}


def _listed(data: bytes) -> dict[str, str]:
    try:
        value = parse_canonical(data.removesuffix(b"\n"))
    except CanonicalError as error:
        msg = f"{FILES}: {error}"
        raise RecordError(msg) from None
    files = value.get("files") if isinstance(value, Mapping) else None
    if not isinstance(files, Mapping):
        msg = f"{FILES}: expected a list of files"
        raise RecordError(msg)
    return {name: str(one.get("sha256")) for name, one in files.items() if isinstance(one, Mapping)}
