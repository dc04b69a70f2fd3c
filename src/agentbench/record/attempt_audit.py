"""Audits one attempt.

Each part is compared with another (←):

    events.jsonl     chain and closing record; head and length ← attempt_sealed and the record
    every file       ← meta/files.json ← attempt_sealed.files_sha256
    repo/            ← meta/workspace.json, if the workspace was kept
    manifest.json    ← identity_bound.manifest_sha256
    blobs/<sha256>   ← its name; every blob that an event refers to exists
    the patch        ← patch_extracted.sha256 and the record
    the record       ← attempt_closed.record_sha256; its checks ← acceptance_check events, one for each mandatory check
    the verdict      ← recomputed from the events, if the caller passes `recompute`
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field
from pathlib import Path, PurePosixPath

from agentbench.core.canonical import CanonicalError, Json, parse_canonical, sha256_hex
from agentbench.core.cpu_budget import CpuBudget, CpuBudgetSpent
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.core.reasons import RunStatus
from agentbench.policy.monitor_rules import RuleSet, published_rules
from agentbench.record.attempt_folder import (
    BLOBS,
    EVENTS,
    FILES,
    MANIFEST,
    SUBFOLDERS,
    WORKSPACE,
    WORKSPACE_LIST,
    content,
    evidence_files,
    evidence_folders,
    hash_file,
    is_task_dir,
)
from agentbench.record.manifest import Manifest, read_manifest
from agentbench.record.manifest_problems import manifest_problems
from agentbench.record.recompute import Recomputed, StoredEvidence
from agentbench.record.retention import reducible
from agentbench.record.schema import AttemptRecord
from agentbench.trace.chain import Event, Line
from agentbench.trace.events import AttemptSealed
from agentbench.trace.json_safe import valid_utf8
from agentbench.trace.log import read_events
from agentbench.trace.verify import ChainReport, Kind, Problem, verify_log
from agentbench.tree.entry import tree_digest
from agentbench.tree.folder import FolderTree
from agentbench.tree.limits import TreeTooLarge

Recompute = Callable[[Iterable[Event], Manifest, AttemptRecord, StoredEvidence], Recomputed]
"""Recomputes the verdict and the decisions of breakers, and returns how the record and the log differ from them."""

SYMLINK = "is a symbolic link; a run has only files and folders"
_BLOB = re.compile(rb'"blob":"([0-9a-f]{64})"')
"""A blob reference in a payload. Inside a JSON string the quotes would be escaped."""


@dataclass(slots=True)
class AttemptAudit:
    """The result of auditing one attempt."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    """The part that could not be recomputed, with the reason."""
    chain: ChainReport | None = None
    recomputed: int = 0


@dataclass(slots=True)
class _Trace:
    """The parts of an attempt's events that other files must agree with."""

    opened: Mapping[str, Json] = field(default_factory=dict)
    manifest_sha256: str | None = None
    patch: Mapping[str, Json] | None = None
    decided: Mapping[str, Json] | None = None
    acceptance: Counter[str] = field(default_factory=Counter)
    outcomes: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    mutated: set[str] = field(default_factory=set)

    def add(self, line: Line, value: Mapping[str, Json]) -> None:
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
class AuditTerms:
    """Inputs shared by the audits of all attempts of a run."""

    recompute: Recompute | None
    rules: Callable[[str], RuleSet | None] = lambda _name: None
    """Returns the monitor rules that the run stores, by digest."""
    budget: CpuBudget | None = None
    """CPU time for rules that this version did not publish: their patterns may be made to take very long."""
    reduced: bool = False
    """The run's chain records that bulky evidence was deleted."""


def audit_attempt(run: Path, sealed: AttemptSealed, record: AttemptRecord | None, terms: AuditTerms) -> AttemptAudit:
    """Audit the folder of a sealed attempt. `record` is its line in `attempts.jsonl`, or None if missing."""
    audit = _AttemptAuditor(run, sealed, record, terms)
    folder = run / sealed.task_dir
    if not is_task_dir(sealed.task_dir) or folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        audit.report("changed", "", "not an attempt folder")
    elif not folder.exists():
        audit.report("removed", "", f"the folder of attempt {sealed.attempt_id} is missing")
    else:
        try:
            audit.run()
        except RecordError as error:
            audit.report("missing", "", error.message)
    return audit.result


class _AttemptAuditor:
    def __init__(self, run: Path, sealed: AttemptSealed, record: AttemptRecord | None, terms: AuditTerms) -> None:
        self.terms = terms
        self.folder = run / sealed.task_dir
        self.sealed = sealed
        self.record = record
        self.trace = _Trace()
        self.result = AttemptAudit()

    def report(self, kind: Kind, name: str, message: str) -> None:
        place = f"{self.sealed.task_dir}/{name}" if name else self.sealed.task_dir
        self.result.problems.append(Problem(kind, place, message))

    def run(self) -> None:
        recompute = self.terms.recompute
        log_is_sound = self._check_log()
        self._check_files()
        self._check_workspace()
        self._check_blobs()
        if not log_is_sound or self.record is None:
            return
        self._check_identity(self.record)
        self._check_patch(self.record)
        manifest = self._check_manifest(self.record)
        self._check_acceptance(self.record, manifest)
        self._check_decision(self.record)
        if recompute and manifest is None and not self.result.problems:
            self.result.notes.append(f"{self.sealed.task_dir}: no manifest, so the verdict was not recomputed")
        if recompute and manifest and not self.result.problems:
            self.result.recomputed = 1
            stored = StoredEvidence(self._blob_text, self.terms.rules, self._missing_text(manifest))
            try:
                with self._cpu_limit(manifest):
                    recomputed = recompute(read_events(self.folder / EVENTS), manifest, self.record, stored)
            except CpuBudgetSpent:
                self._report_slow_rules()
                return
            self.result.skipped = recomputed.skipped
            for difference in recomputed.differences:
                self.report("inconsistent", EVENTS, f"differs from the recomputed decision: {difference}")

    def _cpu_limit(self, manifest: Manifest) -> AbstractContextManager[None]:
        guard, budget = manifest.protocol_manifest.planned.guard, self.terms.budget
        if budget is None or guard is None or guard.monitors == published_rules().digest:
            return nullcontext()
        return budget.spend()

    def _report_slow_rules(self) -> None:
        self.result.recomputed = 0
        seconds = self.terms.budget.seconds if self.terms.budget else 0
        message = f"the rules that the run stores need more than {seconds:.0f} s of CPU time: not rules of any version"
        self.report("inconsistent", EVENTS, message)

    def _missing_text(self, manifest: Manifest) -> str:
        """Return why the text that breakers and monitors saw is not in the folder; empty if it is."""
        if manifest.protocol_manifest.planned.evidence.text == "digest":
            return "the run keeps digests instead of text"
        return "bulky evidence was deleted" if self.terms.reduced and self.trace.blobs else ""

    def _blob_text(self, name: str) -> str | None:
        data = content(self.folder / "blobs" / name) if name.isalnum() else None
        return None if data is None else data.decode("utf-8", "replace")

    def _check_log(self) -> bool:
        """Check the chain, its closing record and the run's seal. Return whether the log can be trusted."""
        path = self.folder / EVENTS
        if path.is_symlink():
            self.report("changed", EVENTS, SYMLINK)
            return False
        if not path.is_file():
            self.report("removed", EVENTS, "the attempt's log is missing")
            return False
        report = verify_log(path, name=f"{self.sealed.task_dir}/{EVENTS}", watch=self.trace.add)
        self.result.chain = report.chain
        if report.problem or report.closing is None:
            if report.problem:
                self.result.problems.append(report.problem)
            return False
        if (report.chain.head, report.chain.events) != (self.sealed.head, self.sealed.events):
            self.report("changed", EVENTS, "a valid chain, but not the one that the run sealed: it was rewritten")
            return False
        if report.closing.record_sha256 != self.sealed.record_sha256:
            self.report("inconsistent", EVENTS, "closed with another record than the run sealed")
        if not report.opened:
            self._check_unopened()
        return True

    def _check_unopened(self) -> None:
        """Accept a log without attempt_opened only if the attempt failed early and is not scored."""
        if self.record is not None and not _scorable(self.record):
            self.result.notes.append(f"{self.sealed.task_dir}: the attempt ended before it was opened")
        else:
            self.report("missing", f"{EVENTS}:1", "the log of an attempt must begin with attempt_opened")

    def _check_files(self) -> None:
        """Compare every evidence file with the sealed list."""
        data = content(self.folder / FILES)
        if data is None:
            self.report("removed", FILES, "the list of evidence files is missing")
            return
        if sha256_hex(data) != self.sealed.files_sha256:
            self.report("changed", FILES, "differs from the list that the run sealed")
            return
        listed = _listed(data)
        present = {valid_utf8(name): name for name in evidence_files(self.folder)}
        for name in sorted(listed.keys() | present.keys()):
            if name not in present:
                if not (self.terms.reduced and reducible(name)):
                    self.report("removed", name, "the file is missing")
            elif name not in listed:
                self.report("appended", name, "the file was added after the attempt was sealed")
            elif hash_file(self.folder / present[name])[0] != listed[name]:
                self.report("changed", name, "the content differs from what was sealed")
        folders = {*SUBFOLDERS, BLOBS, *(str(parent) for name in listed for parent in PurePosixPath(name).parents)}
        for name in map(valid_utf8, evidence_folders(self.folder)):
            if name not in folders:
                self.report("appended", name, "the folder was added after the attempt was sealed")

    def _check_workspace(self) -> None:
        """Compare the kept copy of the workspace with its digest. A folder that the attempt did not keep is not evidence."""
        data, copy = content(self.folder / WORKSPACE_LIST), self.folder / WORKSPACE
        if data is None:
            if os.path.lexists(copy):
                self.result.notes.append(f"{self.sealed.task_dir}/{WORKSPACE}: not covered by a hash chain")
            return
        if not os.path.lexists(copy):
            self.report("removed", WORKSPACE, "the copy of the workspace is missing")
        elif _kept_digest(data) != _copy_digest(copy):
            self.report("changed", WORKSPACE, "the copy of the workspace differs from what was kept")

    def _check_blobs(self) -> None:
        for name, seq in self.trace.blobs.items():
            path = self.folder / "blobs" / name
            if not path.is_file():
                if not self.terms.reduced:
                    self.report("removed", f"blobs/{name}", f"missing, but event {seq} refers to it")
            elif hash_file(path)[0] != name:
                self.report("changed", f"blobs/{name}", "the content does not match its name")

    def _check_identity(self, record: AttemptRecord) -> None:
        for name in ("attempt_id", "run_id", "task_id", "contract_id", "task_digest", "supersedes"):
            if self.trace.opened and self.trace.opened.get(name) != getattr(record, name):
                self.report("inconsistent", f"{EVENTS}:1", f"{name} differs from the record")
        if record.artifact_paths.task_dir != self.sealed.task_dir:
            self.report("inconsistent", "", f"the record names another folder: {record.artifact_paths.task_dir}")

    def _check_manifest(self, record: AttemptRecord) -> Manifest | None:
        path = self.folder / MANIFEST
        if not path.is_file():
            if _scorable(record) or self.trace.manifest_sha256:
                self.report("missing", MANIFEST, "an attempt without a manifest cannot be scored")
            return None
        if self.trace.manifest_sha256 and hash_file(path)[0] != self.trace.manifest_sha256:
            self.report("changed", MANIFEST, "differs from the manifest that was bound before the agent phase")
            return None
        if _scorable(record) and not self.trace.manifest_sha256:
            self.report("missing", EVENTS, "no identity_bound event: the attempt cannot be scored")
        try:
            manifest = read_manifest(path)
        except RecordError as error:
            self.report("inconsistent", MANIFEST, error.message)
            return None
        for problem in manifest_problems(manifest) if _scorable(record) else ():
            self.report("inconsistent", MANIFEST, f"{problem.message}: the attempt cannot be scored")
        return manifest

    def _check_patch(self, record: AttemptRecord) -> None:
        extracted = self.trace.patch
        if record.patch is None:
            if extracted is not None and _scorable(record):
                self.report("inconsistent", EVENTS, "a patch was extracted, but the record has none")
            return
        prefix = f"{self.sealed.task_dir}/"
        name = record.patch.path.removeprefix(prefix)
        if not record.patch.path.startswith(prefix) or ".." in Path(name).parts:
            self.report("inconsistent", "", f"the record's patch {record.patch.path!r} is not in the attempt folder")
            return
        path = self.folder / name
        if not path.is_file():
            self.report("removed", name, "the record's patch is missing")
        elif hash_file(path)[0] != record.patch.sha256:
            self.report("changed", name, "differs from the patch in the record")
        if extracted is None or extracted.get("sha256") != record.patch.sha256:
            self.report("inconsistent", EVENTS, "patch_extracted does not match the patch in the record")
        elif not extracted.get("omitted"):
            uncovered = sorted(_paths(extracted) - self.trace.mutated)
            if uncovered:
                more = f" and {len(uncovered) - 1} more" if len(uncovered) > 1 else ""
                self.result.notes.append(f"{self.sealed.task_dir}: no mutation event covers {uncovered[0]}{more}")

    def _check_acceptance(self, record: AttemptRecord, manifest: Manifest | None) -> None:
        """A scorable attempt has exactly one acceptance event for each mandatory check."""
        for check in record.checks:
            if self.trace.outcomes.get(check.id, check.outcome) != check.outcome:
                self.report(
                    "inconsistent", EVENTS, f"check {check.id} has another outcome in the trace than {check.outcome}"
                )
        if not _scorable(record):
            return
        planned = manifest.protocol_manifest.planned.acceptance if manifest else ()
        required = {check.id for check in planned if check.mandatory} | {
            check.id for check in record.checks if check.mandatory
        }
        for check_id in sorted(required):
            count = self.trace.acceptance[check_id]
            if count != 1:
                events = "no acceptance event" if count == 0 else f"{count} acceptance events"
                self.report("missing", EVENTS, f"{events} for mandatory check {check_id}: the attempt cannot be scored")

    def _check_decision(self, record: AttemptRecord) -> None:
        decided = self.trace.decided
        if decided is None:
            if _scorable(record):
                self.report("missing", EVENTS, "no gates_decided event: the verdict has no evidence")
            return
        recorded: dict[str, Json] = {
            "run_status": record.run_status,
            "reason": record.result.failure_reason,
            "passed": record.result.passed,
            "invalid_cause": record.invalid_cause,
            "attribution": record.attribution,
        }
        for name, value in recorded.items():
            if decided.get(name) != value:
                self.report(
                    "inconsistent", EVENTS, f"{name} is {decided.get(name)} in the trace, {value} in the record"
                )


def _kept_digest(data: bytes) -> str:
    try:
        value = json.loads(data)
    except ValueError:
        return ""
    return str(value.get("tree")) if isinstance(value, dict) else ""


def _copy_digest(copy: Path) -> str:
    # Tree listings leave `.git` out, and the copy never has one.
    if copy.is_symlink() or not copy.is_dir() or os.path.lexists(copy / ".git"):
        return "changed"
    try:
        with FolderTree.at(copy) as tree:
            return tree_digest(tree.entries())
    except (OSError, TreeTooLarge):
        return "unreadable"


def _scorable(record: AttemptRecord) -> bool:
    return record.run_status is not RunStatus.INVALID


def _paths(value: Mapping[str, Json]) -> set[str]:
    files = value.get("files")
    if not isinstance(files, list):
        return set()
    return {str(file.get("path")) for file in files if isinstance(file, Mapping)}


def _listed(data: bytes) -> dict[str, str]:
    try:
        value = parse_canonical(data.removesuffix(b"\n"))
    except CanonicalError as error:
        raise RecordError(f"{FILES}: {error}") from None
    files = value.get("files") if isinstance(value, Mapping) else None
    if not isinstance(files, Mapping):
        raise RecordError(f"{FILES}: expected a list of files")
    return {name: str(file.get("sha256")) for name, file in files.items() if isinstance(file, Mapping)}
