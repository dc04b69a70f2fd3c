"""Running one check, once or as often as its rule says, and deciding it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentbench.contract.schema import Check
from agentbench.core.command import Completed
from agentbench.core.errors import HarnessError, PatchInvalid, TaskError
from agentbench.core.ids import now_iso
from agentbench.core.reasons import Assurance, Outcome
from agentbench.oracle import events
from agentbench.oracle.bench import CheckResult, GradingBench, Observation, StepResult
from agentbench.oracle.commands import ending, missing_program
from agentbench.oracle.environment import build_findings, fingerprint
from agentbench.oracle.habits import habits
from agentbench.oracle.invocation import Invocation, understand
from agentbench.oracle.junit import MAX_BYTES, ReportRefused, read_report
from agentbench.oracle.kit import packed
from agentbench.oracle.pristine import OracleTrouble, configuration_file, pins_of, pristine, survey
from agentbench.oracle.probe import observe_probe
from agentbench.oracle.protected import GradedTree
from agentbench.oracle.pytest_runner import run_pytest
from agentbench.oracle.pytest_verdict import decide
from agentbench.oracle.replica import declares_build, open_replica, shell
from agentbench.oracle.requirement import Requirement, declared, from_outcomes, tally, words
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import TestsStarted
from agentbench.tree.entry import Entry
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.comparison import Globs

MOST_CLOSELY = 1000
"""Tests that the watch over the runner looks at without exception; a look takes about a millisecond."""
_RANK = {Outcome.FAIL: 0, Outcome.ERROR: 1, Outcome.PASS: 2}


@dataclass(frozen=True, slots=True)
class Subject:
    """A tree to be checked: a candidate, or untouched R.

    `build` makes a replica ready and says how that went.
    """

    bench: GradingBench
    tree: GradedTree
    base: Mapping[bytes, Entry]
    build: Callable[[Sandbox], StepResult]


class NotBuilt(Exception):
    """The build ended a run before its check could start."""

    def __init__(self, step: StepResult) -> None:
        super().__init__(step.why)
        self.step = step


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
        """The test step starts when the build, a step of its own, is over."""
        nonlocal started
        result = subject.build(sandbox)
        if result.outcome is not Outcome.PASS:
            raise NotBuilt(result)
        events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
        started = True
        return result

    seen = observe(dataclasses.replace(subject, build=build), check)
    if not started:
        events.step_started(subject.bench, TestsStarted, step, command, check.timeout_sec)
    events.tests_finished(subject.bench, step, seen)
    return seen


def observe(subject: Subject, check: Check) -> Observation:
    """One run in a replica of its own. Our trouble and the task's become `error` here, and nothing else does."""
    try:
        return _observe(subject, check)
    except HarnessError as error:
        return Observation(Outcome.ERROR, f"our own trouble: {error.message}", assurance_of(check))
    except TaskError as error:
        return Observation(Outcome.ERROR, error.message, assurance_of(check))
    except PatchInvalid as error:
        return Observation(Outcome.FAIL, f"Δ cannot be written: {error.message}", assurance_of(check))


def _observe(subject: Subject, check: Check) -> Observation:
    if check.kind == "probe":
        return observe_probe(subject.bench, check, subject.tree, subject.build)
    if check.parser == "junit":
        return _observe_junit(subject, check)
    if check.parser == "exit_code":
        return _observe_exit_code(subject, check)
    invocation = understand(check.command or "")
    if invocation is not None:
        return _observe_pytest(subject, check, invocation)
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


# --- pytest -----------------------------------------------------------------------------------------------------------


def requirement_of(bench: GradingBench, check: Check) -> Requirement:
    """The tests a pytest check requires: the contract's, or all that R has.

    Raises:
        OracleTrouble: there is nothing to require.
        SandboxError: ours.
    """
    found = declared(check)
    if found is not None:
        return found
    invocation = understand(check.command or "")
    if check.parser != "pytest" or invocation is None:
        return Requirement()
    before, _ = pristine(bench, check, invocation)
    if before.trouble and not before.outcomes:
        raise OracleTrouble(f"check {check.id} on untouched R: {before.trouble}")
    found = from_outcomes(before.outcomes, tuple(before.uncollected))
    if found.empty:
        raise OracleTrouble(f"check {check.id}: `{check.command}` finds no test on R that could be required")
    return found


def _observe_pytest(subject: Subject, check: Check, invocation: Invocation) -> Observation:
    bench = subject.bench
    found = survey(bench, check, invocation)
    requirement = requirement_of(bench, check)
    pins = dataclasses.replace(
        pins_of(bench, found, subject.base), closely=requirement.fail_to_pass[:MOST_CLOSELY], written=_written(subject)
    )
    with (
        packed(configuration_file(bench, found)) as kit,
        open_replica(bench, subject.tree, [kit.mount]) as sandbox,
    ):
        subject.build(sandbox)
        built = fingerprint(sandbox, kit, found.python, found.plugins) if declares_build(bench) else {}
        run = run_pytest(sandbox, bench.spec, invocation, kit, pins=pins, timeout_sec=check.timeout_sec)
    usual = set(found.usual)
    if set(run.transcript.unusual()) - usual:
        # Tests of R may do the same when they are run, not only when they are collected.
        usual.update(pristine(bench, check, invocation)[0].usual)
        usual.update(habits(run.transcript.seen, lambda file: _before(subject, file)))
    seen = decide(run, requirement, ceiling_sec=check.timeout_sec, usual=usual, passing_canary=found.passing_canary)
    return dataclasses.replace(seen, findings=(*seen.findings, *build_findings(found.fingerprint, built)))


def _before(subject: Subject, file: str) -> bytes:
    """A file as it is in R; empty where R has none that could be read."""
    path = file.encode("utf-8", "surrogateescape")
    try:
        return subject.bench.prepared.base_tree.read(path, max_bytes=MAX_BYTES) if path in subject.base else b""
    except (OSError, TreeTooLarge):
        return b""


def _written(subject: Subject) -> tuple[str, ...]:
    """Python files that the candidate wrote, as the runner names them."""
    hidden = subject.bench.loaded.hidden_files()
    paths = [write.path for write in subject.tree.writes if write.content is not None and write.path.endswith(b".py")]
    return tuple(path.decode("utf-8", "surrogateescape") for path in paths if path not in hidden)


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
    return dataclasses.replace(
        decided,
        exit_code=completed.exit_code,
        duration_sec=completed.duration_sec,
        timed_out=completed.timed_out,
        stdout=completed.stdout,
        stderr=completed.stderr,
    )


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
