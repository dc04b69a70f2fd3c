"""Running one check, once or as often as its rule says, and deciding it."""

from __future__ import annotations

import dataclasses
import shlex

from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.errors import HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Outcome
from agentbench.oracle import events
from agentbench.oracle.bench import CheckResult, GradingBench, Observation, StepResult, with_run
from agentbench.oracle.commands import ending, missing_program
from agentbench.oracle.invocation import understand
from agentbench.oracle.junit import MAX_BYTES, ReportRefused, read_report
from agentbench.oracle.probe import observe_probe
from agentbench.oracle.pytest_check import PytestCheck
from agentbench.oracle.replica import open_replica, shell
from agentbench.oracle.requirement import Requirement, declared, tally, words
from agentbench.oracle.subject import NotBuilt, Subject
from agentbench.oracle.twins.look import observe_tests
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import TestsStarted
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.comparison import Globs

_RANK = {Outcome.FAIL: 0, Outcome.ERROR: 1, Outcome.PASS: 2}


def run_check(subject: Subject, check: Check) -> CheckResult:
    """All runs that the check's rule asks for; the worst of them decides, and a failure ends them.

    Raises:
        NotBuilt: the build did not pass.
    """
    started_at = now_iso()
    worst: Observation | None = None
    runs = 0
    while runs <= check.reruns and (worst is None or worst.outcome is not Outcome.FAIL):
        runs += 1
        seen = _logged_run(subject, check, runs)
        if worst is None or _RANK[seen.outcome] < _RANK[worst.outcome]:
            worst = seen
    if worst is None:
        raise AssertionError
    if runs > 1:
        counted = f"run {runs} of {check.reruns + 1}"
        worst = dataclasses.replace(worst, why=f"{worst.why} ({counted})" if worst.why else counted)
    return CheckResult(check, worst, started_at, runs)


def _logged_run(subject: Subject, check: Check, number: int) -> Observation:
    step = check.id if number == 1 else f"{check.id}#{number}"
    command = check.command or check.candidate or ""
    started = False

    def build(sandbox: Sandbox) -> StepResult:
        """The test step starts when the first build, a step of its own, is over."""
        nonlocal started
        result = subject.build(sandbox)
        if result.outcome is not Outcome.PASS:
            raise NotBuilt(result)
        if not started:
            events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
        started = True
        return result

    seen = observe(dataclasses.replace(subject, build=build), check, step)
    if not started:
        events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
    events.tests_finished(subject.bench, step, seen)
    return seen


def observe(subject: Subject, check: Check, step: str) -> Observation:
    """One run, in replicas of its own. Our trouble and the task's become `error` here, and nothing else does."""
    try:
        return _observe(subject, check, step)
    except HarnessError as error:
        return Observation(Outcome.ERROR, f"our own trouble: {error.message}", assurance_of(check))
    except TaskError as error:
        return Observation(Outcome.ERROR, error.message, assurance_of(check))
    except PatchInvalid as error:
        return Observation(Outcome.FAIL, f"Δ cannot be written: {error.message}", assurance_of(check))


def _observe(subject: Subject, check: Check, step: str) -> Observation:
    if check.kind == "probe":
        tree = subject.tree if subject.aside is None else subject.aside()
        return observe_probe(subject.bench, check, tree, subject.build)
    if check.parser == "junit":
        return _observe_junit(subject, check)
    if check.parser == "exit_code":
        return _observe_exit_code(subject, check)
    invocation = understand(check.command or "")
    if invocation is not None:
        return observe_tests(PytestCheck(subject, check, invocation), step)
    seen = _observe_exit_code(subject, check)
    note = "only the exit code counts: the command is not a plain call of pytest"
    return dataclasses.replace(seen, why=f"{seen.why}; {note}" if seen.why else note)


def assurance_of(check: Check) -> Assurance:
    """How hard the check's result is to forge."""
    if check.kind == "probe":
        return Assurance.OUT_OF_PROCESS
    if check.parser == "pytest" and understand(check.command or "") is not None:
        return Assurance.PER_TEST
    return Assurance.EXIT_CODE


# --- other commands ---------------------------------------------------------------------------------------------------


def _observe_exit_code(subject: Subject, check: Check) -> Observation:
    bench, line = subject.bench, check.command or ""
    with open_replica(bench, subject.tree) as sandbox:
        subject.build(sandbox)
        completed = sandbox.run(shell(bench, line, check.timeout_sec))
    outcome, why = ending(completed, check.timeout_sec)
    return _seen(bench, check, completed, Observation(outcome, why))


def _seen(bench: GradingBench, check: Check, completed: Completed, decided: Observation) -> Observation:
    program = missing_program(bench, check.command or "", completed)
    if program:
        why = f"the check's command does not exist: `{program}` is not in the environment"
        decided = Observation(Outcome.ERROR, why)
    return with_run(decided, completed)


def _observe_junit(subject: Subject, check: Check) -> Observation:
    bench, report = subject.bench, check.report or ""
    with open_replica(bench, subject.tree) as sandbox:
        subject.build(sandbox)
        # A report that is there before the tests ran was not written by them.
        _remove(bench, sandbox, report)
        completed = sandbox.run(shell(bench, check.command or "", check.timeout_sec))
        sandbox.kill_processes()
        try:
            outcomes, whys = _read_reports(sandbox, report)
        except ReportRefused as error:
            _, why = ending(completed, check.timeout_sec)
            return _seen(bench, check, completed, Observation(Outcome.FAIL, f"{why}; {error}" if why else str(error)))
    return _seen(bench, check, completed, _decide_report(check, completed, outcomes, whys))


def _remove(bench: GradingBench, sandbox: Sandbox, report: str) -> None:
    wanted = _reports(report)
    there = [entry.path for entry in sandbox.tree().entries() if wanted.match(entry.path)]
    names = " ".join(shlex.quote(path.decode("utf-8", "surrogateescape")) for path in there)
    if names:
        sandbox.run(shell(bench, f"rm -rf -- {names}", 60))


def _reports(report: str) -> Globs:
    return Globs([f"/{report.lstrip('/')}"])


def _read_reports(sandbox: Sandbox, report: str) -> tuple[dict[str, str], dict[str, str]]:
    tree = sandbox.tree()
    wanted = _reports(report)
    outcomes: dict[str, str] = {}
    whys: dict[str, str] = {}
    try:
        paths = [entry.path for entry in tree.entries() if wanted.match(entry.path)]
        for path in paths:
            found, messages = read_report(tree.read(path, max_bytes=MAX_BYTES))
            for test, outcome in found.items():
                outcomes[test] = outcome if test not in outcomes else "broken"
            whys |= messages
    except (OSError, TreeTooLarge, PatchInvalid) as error:
        # The last: the candidate's own code ended the sandbox.
        raise ReportRefused(f"the report {report} cannot be read: {error}") from error
    except ReportRefused as error:
        raise ReportRefused(f"the report {report} {error}") from None
    if not paths:
        raise ReportRefused(f"the command wrote no report {report}")
    if not outcomes:
        raise ReportRefused(f"no test is reported in {report}")
    return outcomes, whys


def _decide_report(check: Check, completed: Completed, outcomes: dict[str, str], whys: dict[str, str]) -> Observation:
    requirement = declared(check) or Requirement(pass_to_pass=tuple(outcomes))
    counted = tally(requirement, outcomes)
    ended, why = ending(completed, check.timeout_sec)
    failed = sum(outcome in {"failed", "broken"} for outcome in outcomes.values())
    outcome, said = (Outcome.FAIL if counted.failing else Outcome.PASS), words(counted)
    if completed.timed_out:
        outcome, said = ended, why
    elif outcome is Outcome.PASS and (completed.exit_code == 0) == bool(failed):
        outcome, said = Outcome.FAIL, f"exit code {completed.exit_code} and report ({failed} failed) disagree"
    return Observation(
        outcome,
        said,
        tests=outcomes,
        failing=counted.failing,
        diagnostics="\n".join(
            f"{test}: {outcomes.get(test, 'missing')} {whys.get(test, '')}" for test in counted.failing[:20]
        ),
        f2p_passed=counted.f2p_passed,
        f2p_total=len(requirement.fail_to_pass),
        p2p_kept=counted.p2p_kept,
        p2p_total=len(requirement.pass_to_pass),
    )
