"""Checks that are any command: its exit code decides, or the JUnit report that it wrote."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from agentbench.acceptance.cache import key_of, remembered
from agentbench.acceptance.candidate import NotBuilt, Subject
from agentbench.acceptance.checks.exit_status import ending, missing_program
from agentbench.acceptance.checks.junit import MAX_BYTES, ReportRefused, read_report, worse
from agentbench.acceptance.checks.pytest.base_survey import check_key, remade_by_build, remade_by_r, untouched
from agentbench.acceptance.checks.pytest.runner_integrity import remade_findings
from agentbench.acceptance.checks.required_tests import Requirement, declared, from_both, tally, words
from agentbench.acceptance.grading_context import Finding, GradingBench, Observation, Unlogged, with_run
from agentbench.acceptance.protected import GradedTree
from agentbench.acceptance.replica import open_replica, shell
from agentbench.acceptance.steps import Builder
from agentbench.contract.lock import LockedCheck
from agentbench.contract.schema import Check
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Completed
from agentbench.core.errors import AgentFault, ContractError, TaskError
from agentbench.core.reasons import Outcome
from agentbench.sandbox.protocol import Sandbox
from agentbench.workspace.diff.compare import Globs


def observe_exit_code(subject: Subject, check: Check) -> Observation:
    """Decide by how the command ended.

    Raises:
        NotBuilt, AgentFault: the replica could not be made, or what is in it cannot be read.
        SandboxError: ours.
    """
    bench, line = subject.bench, check.command or ""
    with open_replica(bench, subject.tree) as sandbox:
        shown = _build(subject, sandbox)
        completed = sandbox.run(shell(bench, line, check.timeout_sec))
    outcome, why = ending(completed, check.timeout_sec)
    return _seen(bench, check, completed, Observation(outcome, why, findings=shown))


def observe_junit(subject: Subject, check: Check) -> Observation:
    """Decide by the tests that are in the report.

    Raises:
        NotBuilt, AgentFault: the replica could not be made, or what is in it cannot be read.
        SandboxError: ours.
    """
    bench = subject.bench
    reported = _report(subject, check)
    if reported.refused:
        _, why = ending(reported.completed, check.timeout_sec)
        why = f"{why}; {reported.refused}" if why else reported.refused
        decided = Observation(Outcome.FAIL, why)
    else:
        decided = _decide(check, declared(check) or _listed(subject, check), reported)
    return _seen(bench, check, reported.completed, dataclasses.replace(decided, findings=reported.shown))


def _build(subject: Subject, sandbox: Sandbox) -> tuple[Finding, ...]:
    """Make a replica ready; what its build did to files that Δ does not decide about."""
    subject.build(sandbox)
    found = remade_by_build(sandbox, subject.bench, subject.tree)
    return remade_findings(remade_by_r(subject.bench).paths, found) if found else ()


def _seen(bench: GradingBench, check: Check, completed: Completed, decided: Observation) -> Observation:
    program = missing_program(bench, check.command or "", completed)
    if program:
        why = f"the check's command does not exist: `{program}` is not in the environment"
        decided = Observation(Outcome.ERROR, why, findings=decided.findings)
    return with_run(decided, completed)


# --- reports ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reported:
    """What a run left: outcomes by test with the words of failures, or why there are none."""

    completed: Completed
    shown: tuple[Finding, ...]
    outcomes: Mapping[str, str]
    whys: Mapping[str, str]
    refused: str = ""


def _report(subject: Subject, check: Check) -> _Reported:
    bench, report = subject.bench, check.report or ""
    with open_replica(bench, subject.tree) as sandbox:
        shown = _build(subject, sandbox)
        # A report that is there before the tests ran was not written by them.
        _remove(bench, sandbox, report)
        completed = sandbox.run(shell(bench, check.command or "", check.timeout_sec))
        sandbox.kill_processes()
        try:
            outcomes, whys = _read(sandbox, report)
        except ReportRefused as error:
            return _Reported(completed, shown, {}, {}, str(error))
    return _Reported(completed, shown, outcomes, whys)


def _remove(bench: GradingBench, sandbox: Sandbox, report: str) -> None:
    wanted = _reports(report)
    there = [entry.path for entry in sandbox.tree().entries() if wanted.match(entry.path)]
    names = " ".join(shlex.quote(path.decode("utf-8", "surrogateescape")) for path in there)
    if names:
        sandbox.run(shell(bench, f"rm -rf -- {names}", 60))


def _reports(report: str) -> Globs:
    return Globs([f"/{report.lstrip('/')}"])


def _read(sandbox: Sandbox, report: str) -> tuple[dict[str, str], dict[str, str]]:
    tree = sandbox.tree()
    wanted = _reports(report)
    outcomes: dict[str, str] = {}
    whys: dict[str, str] = {}
    try:
        paths = [entry.path for entry in tree.entries() if wanted.match(entry.path)]
        for path in paths:
            found, messages = read_report(tree.read(path, max_bytes=MAX_BYTES))
            for test, outcome in found.items():
                outcomes[test] = worse(outcomes.get(test), outcome)
            whys |= messages
    except (OSError, AgentFault) as error:  # too large, or the candidate's own code ended the sandbox
        raise ReportRefused(f"the report {report} cannot be read: {error}") from error
    except ReportRefused as error:
        raise ReportRefused(f"the report {report} {error}") from None
    if not paths:
        raise ReportRefused(f"the command wrote no report {report}")
    if not outcomes:
        raise ReportRefused(f"no test is reported in {report}")
    return outcomes, whys


def _listed(subject: Subject, check: Check) -> Requirement:
    """What passes with the reference, or on R where there is none; found out once.

    A report without required ids has to list it: otherwise who keeps tests from running is asked for nothing. A report of R may name the file of tests that do not compile, which no right one has: of R only what passes is taken.
    """
    bench = dataclasses.replace(subject.bench, log=Unlogged(), blobs=None)

    def make() -> LockedCheck:
        before = _outcomes(Subject(bench, untouched(bench), subject.base, Builder(bench)), check)
        tree = _reference(subject)
        after = before if tree is None else _outcomes(Subject(bench, tree, subject.base, Builder(bench)), check)
        found = from_both(before, after)
        return LockedCheck(fail_to_pass=found.fail_to_pass, pass_to_pass=found.pass_to_pass)

    file = bench.loaded.reference_file if subject.reference is not None else None
    key = key_of(check_key(bench, check), "" if file is None else sha256_hex(read_bytes(file)))
    found, _ = remembered(bench.cache, key, LockedCheck, make)
    return Requirement(found.fail_to_pass, found.pass_to_pass)


def _reference(subject: Subject) -> GradedTree | None:
    try:
        return subject.reference() if subject.reference is not None else None
    except (TaskError, ContractError, AgentFault):
        return None  # validation tells it; here it is none


def _outcomes(subject: Subject, check: Check) -> Mapping[str, str]:
    try:
        return _report(subject, check).outcomes
    except (NotBuilt, AgentFault):
        return {}


def _decide(check: Check, required: Requirement, reported: _Reported) -> Observation:
    completed, outcomes = reported.completed, reported.outcomes
    if declared(check) is None:
        # Others that it has may be new or skipped, only not fail.
        others = set(outcomes).difference(required.fail_to_pass, required.pass_to_pass)
        required = dataclasses.replace(required, neutral=tuple(sorted(others)))
    counted = tally(required, outcomes)
    ended, why = ending(completed, check.timeout_sec)
    failed = sum(outcome in {"failed", "broken"} for outcome in outcomes.values())
    outcome, said = (Outcome.FAIL if counted.failing else Outcome.PASS), words(counted)
    if completed.timed_out:
        outcome, said = ended, why
    elif outcome is Outcome.PASS and "passed" not in outcomes.values():
        outcome, said = Outcome.FAIL, f"none of the {len(outcomes)} tests in the report passed"
    elif outcome is Outcome.PASS and (completed.exit_code == 0) == bool(failed):
        outcome, said = Outcome.FAIL, f"exit code {completed.exit_code} and report ({failed} failed) disagree"
    return Observation(
        outcome,
        said,
        tests=outcomes,
        failing=counted.failing,
        diagnostics="\n".join(
            f"{test}: {outcomes.get(test, 'missing')} {reported.whys.get(test, '')}" for test in counted.failing[:20]
        ),
        f2p_passed=counted.f2p_passed,
        f2p_total=len(required.fail_to_pass),
        p2p_kept=counted.p2p_kept,
        p2p_total=len(required.pass_to_pass),
    )
