"""Checks that run any command: its exit code decides, or the test results it wrote."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from agentbench.acceptance.cache import load_or_make
from agentbench.acceptance.cache_keys import reference_key
from agentbench.acceptance.candidate import BaseCandidate, BuildFailed, Candidate
from agentbench.acceptance.checks.build_integrity import build_changes, changed_file_findings
from agentbench.acceptance.checks.exit_status import exit_outcome
from agentbench.acceptance.checks.junit import MAX_BYTES, ReportRefused
from agentbench.acceptance.checks.required_tests import (
    Requirement,
    declared_requirement,
    requirement_from_reference,
    summarize,
    tally,
)
from agentbench.acceptance.checks.result_parser import KEPT_OUTPUT, RunnerOutput, TestResults, parse_results
from agentbench.acceptance.checks.startup import with_start_problem
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, Finding, GradingContext, with_run
from agentbench.acceptance.replica import shell
from agentbench.contract.lock import LockedCheck
from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentFault, ContractError, TaskError
from agentbench.core.reasons import Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.paths import display_path

MAX_REPORTS = 4 * MAX_BYTES
"""Bytes of all report files of a check together."""
MAX_NAMES = 64 * 1024
"""Characters of file names in one command line. A name has at most 4,095 bytes, so that the kernel accepts the line."""


def run_exit_code_check(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    """Run the command and decide by its exit code.

    Raises:
        BuildFailed, AgentFault: the replica could not be built, or its files cannot be read.
        SandboxError: the sandbox failed.
    """
    line = check.command or ""
    with _replica(candidate) as (sandbox, findings):
        step.start()
        completed = sandbox.run(shell(candidate.context, line, check.timeout_sec))
    outcome, why = exit_outcome(completed, check.timeout_sec)
    return _with_evidence(candidate, check, completed, CheckOutcome(outcome, why, findings=findings))


def run_parsed_check(candidate: Candidate, check: Check, step: CheckStep) -> CheckOutcome:
    """Run the command and decide by the tests that the check's parser finds in its report or its output.

    Raises:
        BuildFailed, AgentFault: the replica could not be built, or its files cannot be read.
        SandboxError: the sandbox failed.
    """
    report = _run_and_read(candidate, check, step)
    if report.refused:
        _, why = exit_outcome(report.completed, check.timeout_sec)
        decided = CheckOutcome(Outcome.FAIL, f"{why}; {report.refused}" if why else report.refused)
    else:
        decided = _decide_report(check, declared_requirement(check) or _expected_tests(candidate, check), report)
    return _with_evidence(candidate, check, report.completed, dataclasses.replace(decided, findings=report.findings))


@contextmanager
def _replica(candidate: Candidate) -> Iterator[tuple[Sandbox, tuple[Finding, ...]]]:
    """Open a built replica, with findings about protected files that the build changed."""
    with candidate.replica() as sandbox:
        changed = build_changes(sandbox, candidate.context, candidate.tree)
        yield sandbox, changed_file_findings(candidate.context, changed)


def _with_evidence(candidate: Candidate, check: Check, completed: Completed, decided: CheckOutcome) -> CheckOutcome:
    return with_run(with_start_problem(candidate, check.command or "", completed, decided), completed)


# --- reports ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Report:
    """Outcomes by test and messages of failures, or why the report was refused."""

    completed: Completed
    findings: tuple[Finding, ...]
    outcomes: Mapping[str, str]
    whys: Mapping[str, str]
    refused: str = ""


def _run_and_read(candidate: Candidate, check: Check, step: CheckStep) -> _Report:
    context, report = candidate.context, check.report
    with _replica(candidate) as (sandbox, findings):
        step.start()
        problem = "" if report is None else _remove(context, sandbox, report)
        command = shell(context, check.command or "", check.timeout_sec)
        completed = sandbox.run(dataclasses.replace(command, keep_bytes=max(KEPT_OUTPUT, command.keep_bytes)))
        sandbox.kill_processes()
        if problem:
            return _Report(completed, findings, {}, {}, problem)
        try:
            results = _read(sandbox, check, completed)
        except ReportRefused as error:
            return _Report(completed, findings, {}, {}, str(error))
    return _Report(completed, findings, results.outcomes, results.messages)


def _remove(context: GradingContext, sandbox: Sandbox, report: str) -> str:
    """Remove reports that exist before the command runs: it did not write them. Return which could not be removed.

    The patch decides how many there are, and a build whether their folder can be written.
    """
    paths = _matching(sandbox, report)
    for names in _batches(shlex.quote(path.decode("utf-8", "surrogateescape")) for path in paths):
        sandbox.run(shell(context, f"rm -rf -- {names}", 60))
    remaining = _matching(sandbox, report) if paths else []
    return (
        f"the report {display_path(remaining[0])} existed before the command ran and cannot be removed"
        if remaining
        else ""
    )


def _matching(sandbox: Sandbox, report: str) -> list[bytes]:
    pattern = _pattern(report)
    return [entry.path for entry in sandbox.tree().entries() if pattern.match(entry.path)]


def _batches(names: Iterable[str]) -> Iterator[str]:
    """Join names to lists that a command line can hold."""
    batch: list[str] = []
    size = 0
    for name in names:
        if size > MAX_NAMES:
            yield " ".join(batch)
            batch, size = [], 0
        batch.append(name)
        size += len(name)
    if batch:
        yield " ".join(batch)


def _pattern(report: str) -> Globs:
    return Globs([f"/{report.lstrip('/')}"])


def _read(sandbox: Sandbox, check: Check, completed: Completed) -> TestResults:
    reports = {} if check.report is None else _report_files(sandbox, check.report)
    if check.report is None and (completed.stdout.dropped_bytes or completed.stderr.dropped_bytes):
        raise ReportRefused(f"the command wrote more than {KEPT_OUTPUT} bytes")
    output = RunnerOutput(completed.stdout.kept, completed.stderr.kept, completed.exit_code, reports)
    results = parse_results(check.parser, output)
    if not results.outcomes:
        raise ReportRefused(f"{_source(check)} contains no test")
    return results


def _report_files(sandbox: Sandbox, report: str) -> dict[str, bytes]:
    """Return the content of the report files by their path.

    Raises:
        ReportRefused: there is none, or one cannot be read.
    """
    tree = sandbox.tree()
    try:
        files: dict[str, bytes] = {}
        left = MAX_REPORTS
        for path in _matching(sandbox, report):
            content = tree.read(path, max_bytes=min(MAX_BYTES, left))
            files[path.decode("utf-8", "replace")] = content
            left -= len(content)
    except (OSError, AgentFault) as error:  # too large, or the candidate's own code ended the sandbox
        raise ReportRefused(f"the report {report} cannot be read: {error}") from error
    if not files:
        raise ReportRefused(f"the command wrote no report {report}")
    return files


def _source(check: Check) -> str:
    return "the output" if check.report is None else f"the report {check.report}"


def _expected_tests(candidate: Candidate, check: Check) -> Requirement:
    """The tests that pass with the reference, or on the base repository if there is none; cached.

    A check without required ids must require something: otherwise a patch that keeps tests from running would have
    nothing to fail. Only passing tests of the base count: its report may list a file that did not compile, which a
    correct patch has no test for.
    """
    context = candidate.context.unlogged()

    def make() -> LockedCheck:
        before = _outcomes(BaseCandidate(context, candidate.base), check)
        reference = _reference(candidate)
        after = before if reference is None else _outcomes(reference, check)
        required = requirement_from_reference(before, after)
        return LockedCheck(fail_to_pass=required.fail_to_pass, pass_to_pass=required.pass_to_pass)

    key = reference_key(context, check, candidate.reference_file)
    locked, _ = load_or_make(context.cache, key, LockedCheck, make)
    return Requirement(locked.fail_to_pass, locked.pass_to_pass)


def _reference(candidate: Candidate) -> Candidate | None:
    try:
        return candidate.reference()
    except (TaskError, ContractError, AgentFault):
        return None  # validation reports it; here it counts as no reference


def _outcomes(candidate: Candidate, check: Check) -> Mapping[str, str]:
    try:
        return _run_and_read(candidate, check, CheckStep(candidate.context, check, check.id)).outcomes
    except (BuildFailed, AgentFault):
        return {}


def _decide_report(check: Check, required: Requirement, report: _Report) -> CheckOutcome:
    completed, outcomes = report.completed, report.outcomes
    if declared_requirement(check) is None:
        # Tests that only the candidate has may be new or skipped, but must not fail.
        others = set(outcomes).difference(required.fail_to_pass, required.pass_to_pass)
        required = dataclasses.replace(required, neutral=tuple(sorted(others)))
    counted = tally(required, outcomes)
    ended, ended_why = exit_outcome(completed, check.timeout_sec)
    failed = sum(outcome in {"failed", "broken"} for outcome in outcomes.values())
    outcome, why = (Outcome.FAIL if counted.failing else Outcome.PASS), summarize(counted)
    if completed.timed_out:
        outcome, why = ended, ended_why
    elif outcome is Outcome.PASS and "passed" not in outcomes.values():
        outcome, why = Outcome.FAIL, f"none of the {len(outcomes)} tests in {_source(check)} passed"
    elif outcome is Outcome.PASS and (completed.exit_code == 0) == bool(failed):
        outcome, why = (
            Outcome.FAIL,
            f"exit code {completed.exit_code} contradicts {_source(check)} ({failed} tests failed)",
        )
    return CheckOutcome(
        outcome,
        why,
        tests=outcomes,
        failing=counted.failing,
        diagnostics="\n".join(
            f"{test}: {outcomes.get(test, 'missing')} {report.whys.get(test, '')}" for test in counted.failing[:20]
        ),
        f2p_passed=counted.f2p_passed,
        f2p_total=len(required.fail_to_pass),
        p2p_kept=counted.p2p_kept,
        p2p_total=len(required.pass_to_pass),
    )
