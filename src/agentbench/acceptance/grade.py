"""Grading a patch: from its bytes to one decision per check, every step in the log.

Order: Δ is parsed and put on R (G1) → what Δ may not decide is taken back, hidden files are added → build and static
commands (G2) → the checks, each run in a fresh replica, pytest's also with tests that ask for what is false (G3) → inspection
of Δ (G4). Every check of the contract leaves its event whatever happened before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentbench.acceptance import events
from agentbench.acceptance.candidate import NotBuilt, Subject
from agentbench.acceptance.checks.pytest.base_survey import base_entries, survey
from agentbench.acceptance.checks.pytest.check import required_files, requirement_of
from agentbench.acceptance.checks.pytest.invocation import understand
from agentbench.acceptance.checks.run_check import assurance_of, run_check
from agentbench.acceptance.grading_context import (
    Acceptance,
    CheckResult,
    Finding,
    GradingBench,
    Observation,
    StepResult,
)
from agentbench.acceptance.inspection.inspect_patch import Inspected, inspect
from agentbench.acceptance.protected import GradedTree, Protection, compose
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import NONE, open_replica
from agentbench.acceptance.steps import Builder, applied, run_static
from agentbench.contract.schema import Check
from agentbench.core.errors import HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Gate, Outcome
from agentbench.trace.events import StaticFinished, StaticStarted
from agentbench.tree.entry import Entry, FileWrite
from agentbench.tree.limits import TreeTooLarge
from agentbench.verdict.gates import not_run
from agentbench.workspace.diff.events import path_text
from agentbench.workspace.diff.parse import FilePatch, parse, plan

LISTED = 20
"""Restored or dropped paths that get a finding of their own."""
MAX_BEFORE = 2 * 1024 * 1024


def grade(patch: bytes, bench: GradingBench, *, problem: str | None = None, twins: bool = True) -> Acceptance:
    """Grade one patch. `problem`: why Δ could not be taken as a patch at all; then nothing is run. `twins`: whether tests also
    ask for what is false; not of patches of our own making, which are no attempt to deceive.

    Our own trouble and the task's become `error` on the steps and checks they concern; what the patch brings about
    becomes `fail`.

    Raises:
        RecordError: the log or a blob could not be written.
        HarnessError: untouched R itself could not be read.
    """
    base = base_entries(bench)
    if problem is not None:
        return _not_applied(bench, patch, base, StepResult("apply", Outcome.FAIL, problem))
    try:
        patches = parse(patch)
        planned = plan(patches, bench.prepared.base_tree)
    except PatchInvalid as error:
        return _not_applied(bench, patch, base, StepResult("apply", Outcome.FAIL, error.message))
    except HarnessError as error:
        why = f"our own trouble: {error.message}"
        return _not_applied(bench, patch, base, StepResult("apply", Outcome.ERROR, why))
    application = StepResult("apply", Outcome.PASS)
    applied(bench, patch, planned.writes, base, application, fuzz=planned.fuzz)
    protection, hidden = protection_of(bench), bench.loaded.hidden_files()
    tree = compose(base, planned.writes, protection, hidden)
    tests = protection.files & hidden.keys()

    def aside() -> GradedTree:
        own = [write for write in planned.writes if write.path not in tests]
        return compose(base, own, protection, {path: file for path, file in hidden.items() if path not in tests})

    work = _Grading(bench, tree, aside, base, twins=twins)
    work.run()
    findings = (
        *_taken_back(tree),
        *(found for check in work.checks for found in check.decided.findings),
        *_inspected(bench, patches, planned.writes, tree, base),
    )
    for found in findings:
        events.finding(bench, found)
    return Acceptance(application, work.steps, tuple(work.checks), findings, tree.restored, tree.dropped)


def _not_applied(bench: GradingBench, patch: bytes, base: Mapping[bytes, Entry], application: StepResult) -> Acceptance:
    applied(bench, patch, (), base, application)
    checks = tuple(skipped(bench, check, Gate.G1, application.outcome) for check in bench.loaded.checks)
    return Acceptance(application, (), checks, ())


def skipped(bench: GradingBench, check: Check, gate: Gate, outcome: Outcome) -> CheckResult:
    """A check behind a gate that did not pass: decided by that, and said so."""
    seen = Observation(outcome, not_run(gate, outcome), assurance_of(check))
    result = CheckResult(check, seen, now_iso(), runs=0, not_run=gate)
    events.check_decided(bench, result)
    return result


def protection_of(bench: GradingBench) -> Protection:
    """What Δ does not decide. Where the required tests cannot be found out, the checks will say so themselves."""
    files: set[bytes] = set()
    for check in bench.loaded.checks:
        invocation = understand(check.command or "") if check.parser == "pytest" else None
        if invocation is None:
            continue
        try:
            files |= required_files(bench, survey(bench, check, invocation), requirement_of(bench, check))
        except (HarnessError, TaskError):
            continue
    lock, oracle = bench.loaded.lock, bench.loaded.task.oracle
    files |= {file.encode() for file in (lock.protected if lock and lock.protected else ())}
    return Protection(oracle.protected or (), frozenset(files), oracle.generated)


class _Grading:
    """G2 and G3 at work."""

    def __init__(
        self,
        bench: GradingBench,
        tree: GradedTree,
        aside: Callable[[], GradedTree],
        base: Mapping[bytes, Entry],
        *,
        twins: bool,
    ) -> None:
        self._bench = bench
        self._builder = Builder(bench)
        self._subject = Subject(bench, tree, base, self._builder, self._reference, twins, aside)
        self._static: tuple[StepResult, ...] = ()
        self.checks: list[CheckResult] = []

    @property
    def steps(self) -> tuple[StepResult, ...]:
        return (*(step for step in (self._builder.result,) if step is not None), *self._static)

    def run(self) -> None:
        if self._bench.loaded.task.oracle.static != NONE:
            self._run_static()
        for check in self._bench.loaded.checks:
            stopped = self._stopped()
            if stopped is not None:
                self.checks.append(skipped(self._bench, check, Gate.G2, stopped))
            else:
                self._check(check)

    def _stopped(self) -> Outcome | None:
        """How G2 ended, if it keeps the checks from running. A failure outweighs trouble of ours."""
        outcomes = {step.outcome for step in self.steps}
        return next((bad for bad in (Outcome.FAIL, Outcome.ERROR) if bad in outcomes), None)

    def _run_static(self) -> None:
        """Build and static commands in a replica of their own: they may leave anything behind."""
        try:
            with open_replica(self._bench, self._subject.tree) as sandbox:
                if self._builder(sandbox).outcome is Outcome.PASS:
                    self._static = run_static(self._bench, sandbox)
        except (HarnessError, PatchInvalid) as error:
            outcome = Outcome.FAIL if isinstance(error, PatchInvalid) else Outcome.ERROR
            self._static = (StepResult("static", outcome, error.message),)
            events.step_started(self._bench, StaticStarted, "static", "", 0)
            events.step_finished(self._bench, StaticFinished, "static", None, (outcome, error.message))

    def _check(self, check: Check) -> None:
        try:
            result = run_check(self._subject, check)
        except NotBuilt as stop:
            if self._stopped() is not None:
                self.checks.append(skipped(self._bench, check, Gate.G2, stop.step.outcome))
                return
            why = f"the build passed before and then did not: {stop.step.why}"
            result = CheckResult(check, Observation(stop.step.outcome, why, assurance_of(check)), now_iso())
        events.check_decided(self._bench, result)
        self.checks.append(result)

    def _reference(self) -> GradedTree | None:
        """The replica with the reference in it; None for a task that has none."""
        patch = reference_patch(self._bench)
        if patch is None:
            return None
        writes = plan(parse(patch), self._bench.prepared.base_tree).writes
        return compose(self._subject.base, writes, protection_of(self._bench), self._bench.loaded.hidden_files())


# --- findings ---------------------------------------------------------------------------------------------------------


def _taken_back(tree: GradedTree) -> list[Finding]:
    """What of Δ is not in the replica: told, not punished."""
    found: list[Finding] = []
    for rule, paths, detail in (
        ("protected_restored", tree.restored, "is as in R for grading"),
        ("protected_dropped", tree.dropped, "was added by Δ and left out of grading"),
        ("hidden_overwritten", tree.overwritten, "was replaced by a file of the contract"),
    ):
        found += [Finding(rule, "note", detail, path=path_text(path)[0]) for path in paths[:LISTED]]
        if len(paths) > LISTED:
            found.append(Finding(rule, "note", f"{len(paths) - LISTED} more paths: {detail}"))
    return found


def _inspected(
    bench: GradingBench,
    patches: Sequence[FilePatch],
    writes: Sequence[FileWrite],
    tree: GradedTree,
    base: Mapping[bytes, Entry],
) -> tuple[Finding, ...]:
    policy = bench.loaded.task.policy
    before = {path: _content(bench, path) for path in {patch.old_path for patch in patches} if path in base}
    subject = Inspected(
        patches=patches,
        writes=writes,
        before=before,
        base=frozenset(base),
        editable_globs=bench.loaded.editable_globs,
        generated=bench.loaded.task.oracle.generated,
        graded=frozenset(write.path for write in tree.writes),
        new_dependencies=None if policy.dependencies.allow_new else policy.dependencies.severity,
    )
    try:
        return inspect(subject)
    except Exception as error:  # noqa: BLE001 - hostile input must not end the attempt; an inspection that died is no pass
        return (Finding("inspection", "error", f"the inspection of Δ failed: {type(error).__name__}: {error}"),)


def _content(bench: GradingBench, path: bytes) -> bytes:
    try:
        return bench.prepared.base_tree.read(path, max_bytes=MAX_BEFORE)
    except (OSError, TreeTooLarge):
        return b""
