"""Runs a pytest check with decoy tests and decides it.

Some required tests are replaced by decoys, copies with a wrong expected value, and the code under test cannot tell
which version is the real one. Correct code passes the real tests and fails the decoys. Code that passes both tampers
with the tests.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from agentbench.acceptance.candidate import BuildFailed
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.decide import is_trustworthy
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys.assignments import DecoyPlan, DecoyTarget
from agentbench.acceptance.decoys.decoy_plan import decoy_plan
from agentbench.acceptance.decoys.decoy_runs import DecoyRun, combine_runs, run_decoys
from agentbench.acceptance.events import CheckStep
from agentbench.acceptance.grading_context import CheckOutcome, Finding, with_run
from agentbench.core.background import BackgroundCalls
from agentbench.core.errors import AgentFault, ContractError, PatchInvalid, TaskError
from agentbench.core.reasons import Outcome

if TYPE_CHECKING:
    from agentbench.acceptance.decoys.exceptions import ExceptionClasses

RULE = "passes_false_tests"
MAX_FINDINGS = 5
NO_REFERENCE = "no decoy tests: the task has no reference"
UNSTABLE = "passed decoy tests once but not when repeated: results are not stable"


def run_with_decoys(tests: PytestCheck, step: CheckStep) -> CheckOutcome:
    """Run the tests with decoys among them, or plainly if no required test can have a decoy.

    Every run is a step of the log.

    Raises:
        BuildFailed: the build did not pass.
        TaskError, PatchInvalid: the replica could not be created.
        SandboxError: the sandbox failed.
        RecordError: the log could not be written.
    """
    try:
        plan, remark = decoy_plan(tests), ""
    except (TaskError, ContractError, PatchInvalid) as error:
        plan, remark = DecoyPlan(), f"; no decoy tests: {error.message}"
    except BuildFailed as failure:
        plan, remark = DecoyPlan(), f"; no decoy tests: the reference does not build: {failure.step.why}"
    _require_coverage(tests, plan)
    if plan.targets:
        return _DecoyCheck(tests, plan, step).run()
    if not remark:
        has_reference = tests.candidate.reference_file is not None
        remark = "; none of them can have a decoy test" if has_reference else f"; {NO_REFERENCE}"
    selected = SelectedTests(tests.candidate.tree, named=frozenset(plan.named), reference_sec=plan.reference_sec)
    outcome = tests.decide(tests.run(selected, step.start))
    return dataclasses.replace(outcome, why=f"{outcome.why}{remark if outcome.outcome is Outcome.PASS else ''}")


def _require_coverage(tests: PytestCheck, plan: DecoyPlan) -> None:
    """Check the share of fail-to-pass tests with decoys that the contract requires. It is the `decoy_coverage` of records.

    Raises:
        TaskError: it is smaller.
    """
    minimum = tests.candidate.context.loaded.task.oracle.min_decoy_coverage
    required = set(tests.requirement.fail_to_pass)
    covered = plan.covered(required)
    if minimum is not None and required and covered < minimum * len(required):
        msg = f"{covered} of {len(required)} fail-to-pass tests have a decoy that counts, oracle.min_decoy_coverage is {minimum:g}"
        raise TaskError(msg, remedy="add a reference and tests with literal expected values, or lower the minimum")


class _DecoyCheck:
    """The runs of one check with decoys."""

    def __init__(self, tests: PytestCheck, plan: DecoyPlan, step: CheckStep) -> None:
        self._tests = tests
        self._plan = plan
        self._step = step
        self._steps: list[CheckStep] = []
        self._open: list[CheckStep] = []
        self._spent_sec = 0.0
        self._without_evidence: set[str] = set()
        """Tests whose decoy expects an exception that the candidate's own class is too."""

    def run(self) -> CheckOutcome:
        try:
            return self._decide(self._run_plan())
        except Exception as error:
            # Every step that was started must also finish in the log.
            outcome = Outcome.FAIL if isinstance(error, AgentFault) else Outcome.ERROR
            for step in list(self._open):
                self._finish(step, CheckOutcome(outcome, f"did not finish: {error}"))
            raise

    def _decide(self, runs: list[DecoyRun]) -> CheckOutcome:
        outcome = self._tests.decide(combine_runs(runs, passing_canary=self._tests.survey.passing_canary))
        findings = [finding for run in runs[1:] for finding in self._tests.findings(run.run)]
        suspects = [(run, self._suspects(run, outcome.tests)) for run in runs]
        confirmed = self._confirm(suspects, outcome.tests)
        findings += [_finding(target, run) for target, run in list(confirmed.items())[:MAX_FINDINGS]]
        outcome = dataclasses.replace(
            outcome,
            findings=tuple(dict.fromkeys((*outcome.findings, *findings))),
            duration_sec=self._spent_sec,
            decoys=self._plan.covered(self._tests.requirement.fail_to_pass),
        )
        gate = next((finding for finding in outcome.findings if finding.severity == "gate"), None)
        decided, why = outcome.outcome, outcome.why
        if confirmed:
            decided, why = Outcome.FAIL, f"passed {_count(len(confirmed))} with a wrong expected value"
        elif gate is not None:
            decided, why = Outcome.FAIL, gate.detail
        elif any(targets for _, targets in suspects):
            decided, why = Outcome.FAIL, UNSTABLE
        elif outcome.outcome is Outcome.PASS and (unseen := self._unseen_decoys(runs)):
            decided, why = Outcome.FAIL, f"the decoy test of {unseen[0]} has no result, although the real test passed"
        elif outcome.outcome is Outcome.PASS:
            why = f"{outcome.why}; {self._evidence()}"
        return dataclasses.replace(outcome, outcome=decided, why=why)

    def _evidence(self) -> str:
        """Say how many decoys failed. Those of pass-to-pass tests do not show that the task is solved."""
        failed = len(self._plan.ids) - len(self._without_evidence)
        required = set(self._tests.requirement.fail_to_pass)
        coverage = f" ({self._plan.covered(required)} of {len(required)} fail-to-pass tests have one that counts)"
        return f"decoys of {failed} of them failed as expected{coverage if required else ''}"

    def _unseen_decoys(self, runs: Sequence[DecoyRun]) -> list[str]:
        """Return tests whose decoy has no result that can be trusted. With correct code, all decoys fail.

        A run that did not finish, or whose report is not trusted, has no such result for any of its decoys.
        """
        passing_canary, unseen = self._tests.survey.passing_canary, []
        for run in runs:
            outcomes = run.run.transcript.outcomes() if is_trustworthy(run.run, passing_canary=passing_canary) else {}
            ids = (test for target in run.assignment.decoys for test in target.ids)
            unseen += [test for test in ids if outcomes.get(test) not in {"failed", "passed"}]
        return unseen

    # --- the runs -------------------------------------------------------------------------------------------------

    def _run_plan(self) -> list[DecoyRun]:
        """Run an assignment with all tests, and next to it the others.

        The others start when the first replica is built: its build is the build step of the log. Which of two runs that
        look alike is the first is drawn here, so that neither the clock nor the host's counters tell them apart.
        """
        assignments = list(self._plan.assignments())
        if self._plan.alike:
            random.SystemRandom().shuffle(assignments)
        first, *others = assignments
        with BackgroundCalls[DecoyRun]("decoys") as calls:

            def start_others() -> None:
                self._step.start()
                self._start(1 + len(others))
                calls.start(partial(run_decoys, self._tests, assignment) for assignment in others)

            runs = [run_decoys(self._tests, first, start_others), *calls.results()]
        for step, run in zip(list(self._open), runs, strict=True):
            decoys, targets = (sum(len(t.ids) for t in ts) for ts in (run.assignment.decoys, self._plan.targets))
            why = f"{decoys} of {targets} tests with decoys have a wrong expected value"
            correct = run.correct(self._plan.targets) == set(self._plan.targets)
            self._finish(step, _outcome(run.run, Outcome.PASS if correct else Outcome.FAIL, why))
        first_sec, *others_sec = (run.run.completed.duration_sec for run in runs)
        self._spent_sec += max(first_sec, sum(others_sec))
        return runs

    def _start(self, count: int) -> None:
        for _ in range(count):
            step = self._step.substep(len(self._steps) + 1)
            self._steps.append(step)
            self._open.append(step)
            step.start()

    def _finish(self, step: CheckStep, outcome: CheckOutcome) -> None:
        self._open.remove(step)
        step.finish(outcome)

    def _confirm(
        self, suspects: Sequence[tuple[DecoyRun, Sequence[DecoyTarget]]], real: Mapping[str, str]
    ) -> dict[DecoyTarget, DecoyRun]:
        """Repeat the runs and return the suspects that pass their decoy again: wrong code may do so once by chance.

        All runs are repeated, in random order. If only those with suspects were, code that arouses suspicion in one test
        would see in the repeated run which value of this test is wrong, and could leave that behind for a later grading.
        """
        confirmed: dict[DecoyTarget, DecoyRun] = {}
        if not any(targets for _, targets in suspects):
            return confirmed
        for run, targets in random.SystemRandom().sample(suspects, len(suspects)):
            self._start(1)
            again = run_decoys(self._tests, run.assignment)
            passed = [target for target in again.passed_decoys(real) if target in targets]
            why = f"repeated: {len(passed)} of {len(targets)} suspicious decoy tests passed again"
            self._finish(self._steps[-1], _outcome(again.run, Outcome.FAIL, why))
            self._spent_sec += again.run.completed.duration_sec
            confirmed |= dict.fromkeys(passed, run)
        return confirmed

    def _suspects(self, run: DecoyRun, real: Mapping[str, str]) -> list[DecoyTarget]:
        """Tests whose decoy passed, unless it also passes with the reference in the same run.

        A decoy does not count either if the candidate has a class that is both the expected and the wrong exception.

        Raises:
            TaskError: the reference cannot be run, which is no fault of the candidate.
        """
        passed = [target for target in run.passed_decoys(real) if not self._expects_one_class(target, run)]
        try:
            reference = self._tests.on_reference() if passed else None
            compared = None if reference is None else run_decoys(reference, run.assignment)
            if reference is not None and compared is not None and not compared.run.whole:
                compared = run_decoys(reference, run.assignment)
        except (ContractError, PatchInvalid) as error:
            raise TaskError(f"the reference could not be run for comparison: {error.message}") from error
        except BuildFailed as failure:
            raise TaskError(f"the reference could not be run for comparison: {failure.step.why}") from failure
        if compared is None:
            return passed
        if not compared.run.whole:
            raise TaskError("the reference could not be run for comparison: its tests did not finish")
        correct = compared.correct(passed)
        return [target for target in passed if target in correct]

    def _expects_one_class(self, target: DecoyTarget, run: DecoyRun) -> bool:
        mutation = target.mutation
        is_one = mutation.kind in {"exception", "said exception"} and self._exception_classes.has(
            mutation.original, mutation.replacements[run.assignment.decoys[target]]
        )
        self._without_evidence |= set(target.ids) if is_one else set()
        return is_one

    @cached_property
    def _exception_classes(self) -> ExceptionClasses:
        from agentbench.acceptance.decoys.exceptions import ExceptionClasses  # noqa: PLC0415 - few decoys pass

        candidate = self._tests.candidate
        patched = (write.content or b"" for write in candidate.tree.writes if write.path.endswith(b".py"))
        base = (
            self._tests.before(path.decode(errors="surrogateescape"))
            for path in candidate.base
            if path.endswith(b".py")
        )
        return ExceptionClasses(patched, base)


def _outcome(run: PytestRun, outcome: Outcome, why: str) -> CheckOutcome:
    return with_run(CheckOutcome(outcome, why), run.completed)


def _count(count: int) -> str:
    return "1 decoy test" if count == 1 else f"{count} decoy tests"


def _finding(target: DecoyTarget, run: DecoyRun) -> Finding:
    changed = target.mutation.describe(run.assignment.decoys[target])
    detail = f"{target.ids[0]} passed although its expected value is wrong: {changed}"
    return Finding(RULE, "gate", detail, path=target.file, line=target.mutation.line)
