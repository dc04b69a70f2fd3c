"""Deciding a pytest check: its tests ask for the truth, and twins of them for something else, and nobody in there knows which.

Right work passes what is true and fails what is false. Whoever passes both did something to the tests.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping

from agentbench.acceptance import events
from agentbench.acceptance.candidate import NotBuilt
from agentbench.acceptance.checks.pytest.check import PytestCheck, Taken
from agentbench.acceptance.decoys.catalog import twins_of
from agentbench.acceptance.decoys.combine_runs import combined
from agentbench.acceptance.decoys.decoy_runs import Function, Ran, Twins, once
from agentbench.acceptance.grading_context import Finding, Observation, StepResult, with_run
from agentbench.core.errors import ContractError, PatchInvalid, TaskError
from agentbench.core.reasons import Outcome
from agentbench.core.threads import threads
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import TestsStarted

RULE = "passes_false_tests"
SHOWN = 5
UNSTEADY = "tests passed what is false once and not again: it does not do the same every time"


def observe_tests(tests: PytestCheck, step: str) -> Observation:
    """Decide the check, by one run of its tests or by several where they have twins; every one is a step of the log.

    Raises:
        NotBuilt: the build did not pass.
        TaskError, PatchInvalid: the replica could not be made.
        SandboxError: ours.
        RecordError: the log could not be written.
    """
    if not tests.subject.twins:
        return tests.decided(tests.take())
    try:
        twins, remark = twins_of(tests), ""
    except (TaskError, ContractError, PatchInvalid) as error:
        twins, remark = Twins(), f"; no twins: {error.message}"
    except NotBuilt as stop:
        twins, remark = Twins(), f"; no twins: the reference does not build: {stop.step.why}"
    if twins.functions:
        return _Look(tests, twins, step)()
    if not remark and tests.subject.bench.loaded.reference_file is not None:
        remark = "; none of them has a twin"
    seen = tests.decided(tests.take())
    return dataclasses.replace(seen, why=f"{seen.why}{remark}")


class _Look:
    def __init__(self, tests: PytestCheck, twins: Twins, step: str) -> None:
        self._tests = tests
        self._twins = twins
        self._step = step
        self._steps = 0
        self._open: set[int] = set()
        self._spent_sec = 0.0

    def __call__(self) -> Observation:
        try:
            return self._decide()
        except Exception as error:
            # What has begun ends in the log too: its reader could not tell whether it still goes on.
            for number in sorted(self._open):
                self._finished(number, Observation(Outcome.ERROR, f"did not come to its end: {error}"))
            raise

    def _decide(self) -> Observation:
        ran = self._side_by_side()
        seen = self._tests.decided(combined(ran, passing_canary=self._tests.survey.passing_canary))
        shown = [found for one in ran[1:] for found in self._tests.findings(one.taken)]
        suspects = [(one, self._suspects(one, seen.tests)) for one in ran]
        fooled = [(one, function) for one, there in suspects for function in self._again(one, there, seen.tests)]
        shown += [_finding(function, one) for one, function in fooled[:SHOWN]]
        seen = dataclasses.replace(
            seen, findings=tuple(dict.fromkeys((*seen.findings, *shown))), duration_sec=self._spent_sec
        )
        grave = next((found for found in seen.findings if found.severity == "gate"), None)
        outcome, why = seen.outcome, seen.why
        if fooled:
            outcome, why = Outcome.FAIL, f"{_tests(len(fooled))} though what they were made to ask for is false"
        elif grave is not None:
            outcome, why = Outcome.FAIL, grave.detail
        elif any(there for _, there in suspects):
            outcome, why = Outcome.FAIL, UNSTEADY
        elif seen.outcome is Outcome.PASS:
            why = f"{seen.why}; {len(self._twins.ids)} of them fail when they ask for what is false"
        return dataclasses.replace(seen, outcome=outcome, why=why)

    # --- the runs -------------------------------------------------------------------------------------------------

    def _side_by_side(self) -> list[Ran]:
        """The first run has all tests, the others those that have twins. Builds wait for the first, which is the step of G2."""
        first, *others = self._twins.asked()
        started = threading.Event()
        built = False
        subject = self._tests.subject

        def build(sandbox: Sandbox) -> StepResult:
            nonlocal built
            result = subject.build(sandbox)
            for _ in (first, *others):
                self._started()
            built = True
            started.set()
            return result

        def build_later(sandbox: Sandbox) -> StepResult:
            started.wait()
            if not built:
                raise NotBuilt(StepResult("build", Outcome.FAIL, "the first replica was not built"))
            return subject.build(sandbox)

        with threads(1, "twins", started.set) as pool:
            later = [pool.submit(once, self._with(build_later), one) for one in others]
            try:
                ran = [once(self._with(build), first)]
            finally:
                started.set()
            ran += [one.result() for one in later]
        for number, one in enumerate(ran, start=1):
            false, everything = (sum(len(f.ids) for f in ones) for ones in (one.asked.false, self._twins.functions))
            why = f"{false} of {everything} tests that have twins ask for what is false"
            held = all(one.holds(function) for function in self._twins.functions)
            self._finished(number, _outcome(one.taken, Outcome.PASS if held else Outcome.FAIL, why))
        first_sec, *others_sec = (one.taken.run.completed.duration_sec for one in ran)
        self._spent_sec += max(first_sec, sum(others_sec))
        return ran

    def _with(self, build: Callable[[Sandbox], StepResult]) -> PytestCheck:
        return self._tests.on(dataclasses.replace(self._tests.subject, build=build))

    def _started(self) -> None:
        self._steps += 1
        self._open.add(self._steps)
        check = self._tests.check
        step = f"{self._step}~{self._steps}"
        events.step_started(self._tests.subject.bench, TestsStarted, step, check.command or "", check.timeout_sec)

    def _finished(self, number: int, seen: Observation) -> None:
        self._open.discard(number)
        events.tests_finished(self._tests.subject.bench, f"{self._step}~{number}", seen)

    def _again(self, ran: Ran, suspects: list[Function], true: Mapping[str, str]) -> list[Function]:
        """Those that pass both once more: who is merely wrong may do so by chance, and differently every time."""
        if not suspects:
            return []
        self._started()
        again = once(self._tests, ran.asked)
        fooled = [one for one in again.fooled(true) if one in suspects]
        why = f"once more, {len(fooled)} of {len(suspects)} tests pass what is false"
        self._finished(self._steps, _outcome(again.taken, Outcome.FAIL, why))
        self._spent_sec += again.taken.run.completed.duration_sec
        return fooled

    def _suspects(self, ran: Ran, true: Mapping[str, str]) -> list[Function]:
        """Tests that passed what is false, and do not with the reference in the very same run.

        Raises:
            TaskError: the reference cannot be run, which is nothing that the candidate did.
        """
        fooled = ran.fooled(true)
        try:
            reference = self._tests.of_reference() if fooled else None
            own = None if reference is None else once(reference, ran.asked)
            if reference is not None and own is not None and not own.taken.run.whole:
                own = once(reference, ran.asked)
        except (ContractError, PatchInvalid) as error:
            raise TaskError(f"the reference could not be run beside it: {error.message}") from error
        except NotBuilt as stop:
            raise TaskError(f"the reference could not be run beside it: {stop.step.why}") from stop
        if own is None:
            return fooled
        if not own.taken.run.whole:
            raise TaskError("the reference could not be run beside it: its tests do not come to their end")
        return [one for one in fooled if own.holds(one)]


def _outcome(taken: Taken, outcome: Outcome, why: str) -> Observation:
    return with_run(Observation(outcome, why), taken.run.completed)


def _tests(count: int) -> str:
    return "1 test passes" if count == 1 else f"{count} tests pass"


def _finding(function: Function, ran: Ran) -> Finding:
    line, what = ran.places.get(function, (None, ""))
    detail = f"{function.ids[0]} passes though its expectation was made false: {what}"
    return Finding(RULE, "gate", detail, path=function.file, line=line)
