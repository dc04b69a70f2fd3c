"""Replay attempts: grade the recorded patches again on the same base repository and compare the outcome of every check.

A replay needs no model, no agent and no task folder: the task is packed with every attempt. It needs the base repository
(packed if small, else from the cache or its source) and prepares its environment again if that is not cached. It grades with the
recorded decoys, and refuses to compare an attempt whose decoys it does not have.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance
from agentbench.contract.load import LoadedTask, load_task
from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, HarnessError, InputError, RecordError, SourceError, TaskError
from agentbench.core.reasons import REPEATED_ON_RESUME, Outcome
from agentbench.execution.lab import Lab
from agentbench.execution.originals import OriginalsReader
from agentbench.execution.reference_evidence import REFERENCE, RecordedDecoys, with_reference
from agentbench.execution.task_bundle import CONTRACT, Bundle, secrets_redactor, unpack
from agentbench.record.attempt_folder import EVENTS, FINAL_PATCH, attempt_path
from agentbench.record.manifest import evidence_text
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.sandbox.protocol import Prepared
from agentbench.trace.events import (
    AcceptanceCheck,
    BuildFinished,
    IdentityBound,
    IntegrityFinding,
    PatchApplied,
    PatchExtracted,
    StaticFinished,
    TestsFinished,
)
from agentbench.trace.log import read_events
from agentbench.trace.redaction import Redactor
from agentbench.tree.entry import tree_digest
from agentbench.verdict.headline import judged_only
from agentbench.workspace.source.snapshot import Snapshot

Environment = Literal["same", "rebuilt", "unavailable", "not needed"]
Agreement = Literal["agrees", "differs", "unavailable", "nothing"]


@dataclass(slots=True)
class RecordedGrading:
    """The grading of an attempt as its log has it."""

    identity: IdentityBound | None = None
    patch: PatchExtracted | None = None
    applied: PatchApplied | None = None
    steps: dict[str, str] = field(default_factory=dict)
    checks: dict[str, AcceptanceCheck] = field(default_factory=dict)
    decoys: set[str] = field(default_factory=set)
    """Checks that ran decoys."""
    caught: set[str] = field(default_factory=set)
    """Rules of the findings that failed the patch while it was graded."""

    def decoys_by_check(self) -> list[RecordedDecoys]:
        """Return the decoys of every check that ran some."""
        return [
            RecordedDecoys(check_id, check.decoy_plan)
            for check_id, check in self.checks.items()
            if check_id in self.decoys
        ]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The recorded and the replayed outcome of one check."""

    check_id: str
    then: str
    now: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of replaying one attempt."""

    record: AttemptRecord
    agreement: Agreement
    environment: Environment
    why: str = ""
    checks: tuple[Comparison, ...] = ()
    remedy: str = ""

    @property
    def differences(self) -> tuple[str, ...]:
        return tuple(check.difference for check in self.checks if check.difference)


def replay_run(
    run: RunDirectory,
    lab: Lab,
    *,
    task_id: str | None = None,
    originals: OriginalsReader | None = None,
    report: Callable[[AttemptRecord], None] = lambda _record: None,
) -> Iterator[Replay]:
    """Replay every final attempt of a run, or those of one task. `originals` has the text that the run does not contain.

    Raises:
        InputError: the run has no attempt of that task.
        RecordError: the run directory cannot be read.
    """
    wanted = [record for record in run.finals() if task_id is None or record.task_id == task_id]
    if not wanted:
        tasks = ", ".join(sorted({record.task_id for record in run.finals()})) or "none"
        msg = f"no attempt at task '{task_id}' in {run.path}" if task_id else f"no attempts in {run.path}"
        raise InputError(msg, remedy=f"tasks with attempts: {tasks}")
    for record in wanted:
        report(record)
        yield replay_attempt(attempt_path(run.path, record.artifact_paths.task_dir), record, lab, originals)


def replay_attempt(folder: Path, record: AttemptRecord, lab: Lab, originals: OriginalsReader | None = None) -> Replay:
    """Replay one attempt from its folder. If it cannot be replayed, that is a result, not an error.

    Raises:
        RecordError: the evidence cannot be read.
    """
    recorded = read_recorded(folder / EVENTS)
    if record.termination.code in REPEATED_ON_RESUME:
        return Replay(record, "nothing", "not needed", f"no result yet: {record.termination.rationale}")
    if recorded.patch is None or not recorded.checks or recorded.identity is None:
        judged = judged_only(record.run_status, record.result.failure_reason, record.attribution)
        why = "no workspace, judged only" if judged else "the attempt ended before grading"
        return Replay(record, "nothing", "not needed", why)
    text = evidence_text(folder)
    if text == "digest" and originals is None:
        why = "the run keeps digests instead of text; the patch and the task are only in the restricted store"
        return Replay(record, "unavailable", "unavailable", why, remedy="give the store's key with --key FILE")
    files = _Files(folder, record, originals)
    stored = files.recorded_patch()
    with tempfile.TemporaryDirectory(prefix="ab-replay-") as scratch:
        try:
            archive = files.read(CONTRACT)
            bundle = unpack(archive, _folder(scratch, "packed"))
            snapshot = find_repository(bundle, recorded.identity.snapshot, lab)
            redact = secrets_redactor(None if text == "full" else lab.snapshot_secrets(snapshot))
            if bundle.redacted:
                bundle = unpack(archive, _folder(scratch, "restored"), redact)
            patch = _exact_patch(stored, files, recorded.patch, redact)
            task, evidence = with_reference(bundle, files.read_reference(), recorded.decoys_by_check(), redact)
            prepared = lab.prepare_snapshot(task, bundle.ids, snapshot)
            context = replace(lab.grading_context(prepared), reference_evidence=evidence)
            replayed = grade(patch, context, problem=recorded.patch.problem)
        except (HarnessError, TaskError, InputError) as error:
            return Replay(record, "unavailable", "unavailable", error.message, remedy=error.remedy or "")
    checks = tuple(compare(recorded, replayed, redact))
    agreement: Agreement = "differs" if any(check.difference for check in checks) else "agrees"
    environment, why = _environment(recorded.identity, prepared.environment)
    return Replay(record, agreement, environment, why, checks)


def read_recorded(log: Path) -> RecordedGrading:
    """Read the grading from a log. If there are several results for a step or check, the last one counts."""
    recorded = RecordedGrading()
    for event in read_events(log):
        match event.payload:
            case IdentityBound() as identity:
                recorded.identity = identity
            case PatchExtracted() as patch:
                recorded = RecordedGrading(recorded.identity, patch)
            case PatchApplied(call_id=None) as applied:
                recorded.applied = applied
            case BuildFinished() | StaticFinished() as step:
                recorded.steps[step.step] = step.outcome
            case AcceptanceCheck() as check:
                recorded.checks[check.check_id] = check
            case TestsFinished() as tests if "~" in tests.step:
                recorded.decoys.add(tests.step.partition("~")[0].partition("#")[0])
            case IntegrityFinding(severity="gate") as finding:
                recorded.caught.add(finding.rule)
            case _:
                pass
    return recorded


def find_repository(bundle: Bundle, digest: str, lab: Lab) -> Snapshot:
    """Find the base repository with this digest: in the cache, in the bundle, or at the task's source.

    Raises:
        SourceError: it cannot be read, or has changed since.
    """
    cached = lab.snapshots.by_digest(digest)
    if cached is not None:
        return cached
    problems: list[str] = []
    for candidate in _sources(bundle):
        try:
            snapshot = lab.snapshots.materialize(candidate)
        except AgentBenchError as error:
            problems.append(error.message)
            continue
        if snapshot.digest == digest:
            return snapshot
        problems.append(f"{candidate.folder}: the repository is now {snapshot.digest}")
    reasons = "; ".join(problems) or "it was not packed and its source is unknown"
    raise SourceError(f"base repository {digest} is unavailable: {reasons}")


def _sources(bundle: Bundle) -> Iterator[LoadedTask]:
    if bundle.repository is not None:
        yield bundle.with_repository()
    if (bundle.origin / "task.yaml").is_file():
        with contextlib.suppress(InputError):
            yield load_task(bundle.origin)
    yield bundle.task


def compare(recorded: RecordedGrading, replayed: Acceptance, redact: Redactor) -> Iterator[Comparison]:
    """Compare application, build, static steps and every check. A check that only one side has is a difference.

    Names of tests can contain secrets of the repository, which are redacted on both sides.
    """
    if recorded.applied is not None:
        yield _step("patch", str(recorded.applied.outcome), str(replayed.application.outcome))
    now_steps = {step.step: str(step.outcome) for step in replayed.steps}
    for name in dict.fromkeys([*recorded.steps, *now_steps]):
        yield _step(name, recorded.steps.get(name, "not run"), now_steps.get(name, "not run"))
    now_checks = {result.check.id: result for result in replayed.checks}
    for name in dict.fromkeys([*recorded.checks, *now_checks]):
        then, again = recorded.checks.get(name), now_checks.get(name)
        if then is None or again is None:
            yield _step(name, "absent" if then is None else str(then.outcome), "absent" if again is None else "present")
            continue
        failing, why = list(map(redact.text, again.decided.failing)), redact.text(again.decided.why)
        yield _check(then, str(again.outcome), failing, why, caught=bool(recorded.caught))


def _step(name: str, then: str, now: str) -> Comparison:
    return Comparison(name, then, now, "" if then == now else f"{name}: recorded {then}, now {now}")


def _check(then: AcceptanceCheck, now: str, failing: Sequence[str], why: str, *, caught: bool) -> Comparison:
    """Compare one check. `caught`: tampering was found when the patch was graded."""
    name = then.check_id
    if caught and then.outcome is Outcome.FAIL and now == Outcome.PASS:
        # Code that tampers by chance is not cleared by a run in which it did not.
        difference = f"{name}: recorded fail ({then.why}); the tampering was not repeated, the recorded verdict stands"
    elif str(then.outcome) != now:
        difference = f"{name}: recorded {then.outcome} ({then.why}), now {now} ({why})"
    elif not then.omitted_failing and (changed := sorted(set(then.failing_tests) ^ set(failing))):
        difference = f"{name}: {now} as recorded, but for different tests: {', '.join(changed[:5])}"
    else:
        difference = ""
    return Comparison(name, str(then.outcome), now, difference)


def _environment(identity: IdentityBound, prepared: Prepared) -> tuple[Environment, str]:
    different = []
    if prepared.backend != identity.backend:
        different.append(f"backend {prepared.backend} instead of {identity.backend}")
    if prepared.digest != identity.env_digest:
        different.append("setup had a different result")
    if tree_digest(prepared.base_tree.entries()) != identity.base_tree:
        different.append("the workspace after setup differs")
    if different:
        return "rebuilt", "; ".join(different)
    return "same", "" if prepared.cached else "prepared again, with the same result"


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of an attempt, as they were before redaction if a restricted store has them."""

    folder: Path
    record: AttemptRecord
    originals: OriginalsReader | None

    def read(self, name: str) -> bytes:
        if self.originals is not None and self.originals.has_file(self.record, name):
            return self.originals.file(self.record, name)
        return _read(self.folder / name)

    def read_reference(self) -> bytes | None:
        try:
            return self.read(REFERENCE)
        except RecordError:
            return None

    def recorded_patch(self) -> bytes:
        """Return the patch in the folder, which may have placeholders.

        Raises:
            RecordError: it cannot be read, or was changed.
        """
        if self.record.patch is None:
            raise RecordError(f"{self.folder}: the record has no patch")
        if self.record.patch.path != f"{self.record.artifact_paths.task_dir}/{FINAL_PATCH}":
            raise RecordError(f"{self.record.patch.path!r} is not the patch of {self.folder}")
        data = _read(self.folder / FINAL_PATCH)
        if sha256_hex(data) != self.record.patch.sha256.removeprefix("sha256:"):
            msg = f"{self.record.patch.path} does not match the record's digest"
            raise RecordError(msg, remedy="run `ab verify` to see what was changed")
        return data


def _exact_patch(recorded: bytes, files: _Files, event: PatchExtracted, redact: Redactor) -> bytes:
    """Return the patch that was graded: the recorded one, its original, or with the secrets of the base repository put back.

    Raises:
        InputError: it has placeholders for other secrets.
    """
    if sha256_hex(recorded) == event.graded_sha256:
        return recorded
    exact = redact.restore(recorded)
    if sha256_hex(exact) != event.graded_sha256 and files.originals is not None:
        exact = files.read(FINAL_PATCH)
    if sha256_hex(exact) != event.graded_sha256:
        msg = "secrets in the recorded patch were replaced by placeholders and are not in the base repository"
        raise InputError(msg)
    return exact


def _folder(parent: str, name: str) -> Path:
    folder = Path(parent) / name
    folder.mkdir()
    return folder


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror or error}") from error
