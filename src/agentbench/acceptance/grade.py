"""Grade a patch: from its bytes to one decision per check, with every step in the log.

1. Parse the patch and apply it to the base repository.
2. Leave out what the patch may not decide, add the hidden files (`Candidate`).
3. Build, and run the static commands.
4. Run the checks, each in a fresh replica; pytest checks also run decoy tests.
5. Inspect the patch.

Every check of the contract leaves its event, also when an earlier step failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentbench.acceptance import events
from agentbench.acceptance.candidate import BuildFailed, Candidate
from agentbench.acceptance.checks.exit_status import step_result
from agentbench.acceptance.checks.pytest.base_survey import survey
from agentbench.acceptance.checks.pytest.check import required_files, requirement_of
from agentbench.acceptance.checks.pytest.run import workspace_interpreter
from agentbench.acceptance.checks.run_check import assurance_of, run_check
from agentbench.acceptance.grading_context import (
    Acceptance,
    CheckOutcome,
    CheckResult,
    Finding,
    GradingContext,
    StepResult,
)
from agentbench.acceptance.inspection.inspect_patch import InspectedPatch, inspect
from agentbench.acceptance.protected import GradedTree, Protection
from agentbench.acceptance.replica import NONE, STATIC_TIMEOUT_SEC, base_entries, shell
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.errors import AgentFault, HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Gate, Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import StaticFinished, StaticStarted
from agentbench.tree.entry import Entry, FileWrite
from agentbench.tree.limits import TreeTooLarge
from agentbench.verdict.gates import not_run
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.events import path_text
from agentbench.workspace.diff.file_patch import FilePatch
from agentbench.workspace.diff.parse import parse

LISTED = 20
"""Restored or dropped paths that get a finding of their own."""
MAX_BEFORE = 16 * 1024 * 1024


def grade(patch: bytes, context: GradingContext, *, problem: str | None = None, decoys: bool = True) -> Acceptance:
    """Grade one patch.

    Harness errors and faults of the task become `error` on the steps and checks they concern; what the patch causes
    becomes `fail`. If `problem` says why the agent's changes could not be made into a patch, nothing is run. `decoys`:
    whether pytest checks also run decoy tests; patches that the harness made itself need none.

    Raises:
        RecordError: the log or a blob could not be written.
        HarnessError: the base repository could not be read.
        Interrupted: grading was cancelled.
    """
    base = base_entries(context)
    if problem is not None:
        return _not_applied(context, patch, base, StepResult("apply", Outcome.FAIL, problem))
    try:
        patches = parse(patch)
        planned = plan_writes(patches, context.prepared.base_tree)
    except PatchInvalid as error:
        return _not_applied(context, patch, base, StepResult("apply", Outcome.FAIL, error.message))
    except HarnessError as error:
        why = f"harness error: {error.message}"
        return _not_applied(context, patch, base, StepResult("apply", Outcome.ERROR, why))
    application = StepResult("apply", Outcome.PASS)
    events.patch_applied(context, patch, planned.writes, base, application, fuzz=planned.fuzz)
    candidate = Candidate(context, base, planned.writes, protection_of(context), decoys=decoys)
    static = _run_static(candidate)
    checks = _run_checks(candidate, static)
    steps = (*((candidate.build_step,) if candidate.build_step is not None else ()), *static)
    tree = candidate.tree
    findings = (
        *_protection_findings(tree),
        *(finding for check in checks for finding in check.decided.findings),
        *_inspect(context, patches, planned.writes, tree, base),
    )
    for finding in findings:
        events.integrity_finding(context, finding)
    return Acceptance(application, steps, checks, findings, tree.restored, tree.dropped)


def _not_applied(
    context: GradingContext, patch: bytes, base: Mapping[bytes, Entry], application: StepResult
) -> Acceptance:
    events.patch_applied(context, patch, (), base, application)
    checks = tuple(_skip(context, check, Gate.G1, application.outcome) for check in context.loaded.checks)
    return Acceptance(application, (), checks, ())


def _skip(context: GradingContext, check: Check, gate: Gate, outcome: Outcome) -> CheckResult:
    """Decide a check by the earlier gate that did not pass."""
    decided = CheckOutcome(outcome, not_run(gate, outcome), assurance_of(check))
    result = CheckResult(check, decided, now_iso(), runs=0, not_run=gate)
    events.check_decided(context, result)
    return result


def protection_of(context: GradingContext) -> Protection:
    """Return the paths that the patch does not decide.

    A check whose required tests cannot be found reports that itself.
    """
    files: set[bytes] = set()
    interpreters: list[str] = []
    for check in context.loaded.checks:
        command = parse_pytest_command(check.command or "") if check.parser == "pytest" else None
        if command is None:
            continue
        interpreter = workspace_interpreter(context.spec, command)
        interpreters += [f"/{interpreter}"] if interpreter is not None else []
        try:
            files |= required_files(context, survey(context, check, command), requirement_of(context, check))
        except (HarnessError, TaskError):
            continue
    lock, oracle = context.loaded.lock, context.loaded.task.oracle
    files |= {file.encode() for file in (lock.protected if lock and lock.protected else ())}
    return Protection((*(oracle.protected or ()), *interpreters), frozenset(files), oracle.generated)


def _run_static(candidate: Candidate) -> tuple[StepResult, ...]:
    """Run the static commands in a built replica of their own: they may leave anything behind.

    It has no hidden tests. Code of the candidate that ran beside the real ones could tell the runs with decoys about them.
    """
    context, lines = candidate.context, candidate.context.loaded.task.oracle.static
    if lines == NONE:
        return ()
    try:
        with candidate.replica(candidate.tree_without_hidden_tests()) as sandbox:
            # Every command runs, also after one that failed.
            return tuple(
                _run_static_command(candidate, sandbox, f"static#{number}", line)
                for number, line in enumerate(lines, start=1)
            )
    except BuildFailed:
        return ()
    except (HarnessError, AgentFault) as error:
        outcome = Outcome.FAIL if isinstance(error, AgentFault) else Outcome.ERROR
        result = StepResult("static", outcome, error.message)
        events.step_started(context, StaticStarted, "static", "", 0)
        events.step_finished(context, StaticFinished, result, None)
        return (result,)


def _run_static_command(candidate: Candidate, sandbox: Sandbox, step: str, line: str) -> StepResult:
    context = candidate.context
    events.step_started(context, StaticStarted, step, line, STATIC_TIMEOUT_SEC)
    completed: Completed | None = None
    try:
        completed = sandbox.run(shell(context, line, STATIC_TIMEOUT_SEC))
        result = step_result(context, step, line, completed, STATIC_TIMEOUT_SEC)
    except HarnessError as error:
        result = candidate.failed_step(step, error)
    events.step_finished(context, StaticFinished, result, completed)
    return result


def _run_checks(candidate: Candidate, static: Sequence[StepResult]) -> tuple[CheckResult, ...]:
    """Run every check, or skip it once the build or a static command did not pass."""
    results: list[CheckResult] = []
    for check in candidate.context.loaded.checks:
        blocked = _blocked(candidate, static)
        if blocked is not None:
            results.append(_skip(candidate.context, check, Gate.G2, blocked))
        else:
            results.append(_run_check(candidate, check))
    return tuple(results)


def _blocked(candidate: Candidate, static: Sequence[StepResult]) -> Outcome | None:
    """The outcome of build and static commands, if it keeps the checks from running; `fail` outweighs `error`."""
    outcomes = {step.outcome for step in (candidate.build_step, *static) if step is not None}
    return next((outcome for outcome in (Outcome.FAIL, Outcome.ERROR) if outcome in outcomes), None)


def _run_check(candidate: Candidate, check: Check) -> CheckResult:
    try:
        result = run_check(candidate, check)
    except BuildFailed as stop:
        if _blocked(candidate, ()) is not None:
            return _skip(candidate.context, check, Gate.G2, stop.step.outcome)
        why = f"the build passed in an earlier replica and failed in this one: {stop.step.why}"
        result = CheckResult(check, CheckOutcome(stop.step.outcome, why, assurance_of(check)), now_iso())
    events.check_decided(candidate.context, result)
    return result


# --- findings ---------------------------------------------------------------------------------------------------------


def _protection_findings(tree: GradedTree) -> list[Finding]:
    """List the parts of the patch that are not in the replica. They are notes and cost nothing."""
    findings: list[Finding] = []
    for rule, paths, detail in (
        ("protected_restored", tree.restored, "protected file restored from the base repository for grading"),
        ("protected_dropped", tree.dropped, "added by the patch, left out of grading"),
        ("hidden_overwritten", tree.overwritten, "replaced by a hidden file of the task"),
    ):
        findings += [Finding(rule, "note", detail, path=path_text(path)[0]) for path in paths[:LISTED]]
        if len(paths) > LISTED:
            findings.append(Finding(rule, "note", f"{len(paths) - LISTED} more paths: {detail}"))
    return findings


def _inspect(
    context: GradingContext,
    patches: Sequence[FilePatch],
    writes: Sequence[FileWrite],
    tree: GradedTree,
    base: Mapping[bytes, Entry],
) -> tuple[Finding, ...]:
    policy = context.loaded.task.policy
    before = {path: _content(context, path) for path in {patch.old_path for patch in patches} if path in base}
    inspected = InspectedPatch(
        patches=patches,
        writes=writes,
        before=before,
        base=frozenset(base),
        editable_globs=context.loaded.editable_globs,
        generated=context.loaded.task.oracle.generated,
        graded=frozenset(write.path for write in tree.writes),
        known_packages=None if context.known_packages is None else frozenset(context.known_packages),
        new_dependencies=None if policy.dependencies.allow_new else policy.dependencies.severity,
    )
    try:
        return inspect(inspected)
    except Exception as error:  # noqa: BLE001 - hostile input must not end the attempt; a crashed inspection is no pass
        return (Finding("inspection", "error", f"patch inspection crashed: {type(error).__name__}: {error}"),)


def _content(context: GradingContext, path: bytes) -> bytes:
    try:
        return context.prepared.base_tree.read(path, max_bytes=MAX_BEFORE)
    except (OSError, TreeTooLarge):
        return b""
