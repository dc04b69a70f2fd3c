"""Deciding a pytest check: its tests ask for the truth, and twins of them for something else, and nobody in there knows which.

Right work passes what is true and fails what is false. Whoever passes both did something to the tests.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence

from agentbench.core.errors import ContractError, PatchInvalid, TaskError
from agentbench.core.reasons import Outcome
from agentbench.core.threads import threads
from agentbench.oracle import events
from agentbench.oracle.bench import Finding, Observation, StepResult
from agentbench.oracle.pytest_check import PytestCheck, Taken, Tests
from agentbench.oracle.subject import NotBuilt, none
from agentbench.oracle.twins.combining import combined, completed_by
from agentbench.oracle.twins.known import on_reference, twins_of
from agentbench.oracle.twins.running import Function, Ran, Twins, once, plan
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import TestsStarted

RULE = "passes_false_tests"
SHOWN = 5


def observe_tests(tests: PytestCheck, step: str) -> Observation:
    """Decide the check, by one run of its tests or by several where they have twins; every one is a step of the log.

    Raises:
        NotBuilt: the build did not pass.
        TaskError, PatchInvalid: the replica could not be made.
        SandboxError: ours.
        RecordError: the log could not be written.
    """
    if tests.subject.reference is none:
        return tests.decided(tests.take())
    try:
        twins, remark = twins_of(tests), ""
    except (TaskError, ContractError, PatchInvalid) as error:
        twins, remark = Twins(), f"; no twins: {error.message}"
    except NotBuilt as stop:
        twins, remark = Twins(), f"; no twins: the reference does not build: {stop.step.why}"
    if twins.functions:
        return _Look(tests, twins, step)()
    seen = tests.decided(tests.take())
    return dataclasses.replace(seen, why=f"{seen.why}{remark}")


class _Look:
    def __init__(self, tests: PytestCheck, twins: Twins, step: str) -> None:
        self._tests = tests
        self._twins = twins
        self._step = step
        self._steps = 0
        self._spent_sec = 0.0

    def __call__(self) -> Observation:
        ran = self._side_by_side()
        taken = combined(ran, passing_canary=self._tests.survey.passing_canary)
        seen = self._tests.decided(taken)
        shown = [found for one in ran[1:] for found in self._tests.findings(one.taken)]
        fooled = [(one, function) for one in ran for function in self._confirmed(one)]
        shown += [_finding(function, one) for one, function in fooled[:SHOWN]]
        seen = dataclasses.replace(seen, findings=tuple(dict.fromkeys((*seen.findings, *shown))))
        grave = next((found for found in seen.findings if found.severity == "gate"), None)
        if fooled:
            why = f"{len(fooled)} tests pass though what they were made to ask for is false"
            return self._closed(seen, Outcome.FAIL, why)
        if grave is not None:
            return self._closed(seen, Outcome.FAIL, grave.detail)
        if seen.outcome is Outcome.PASS:
            why = f"{seen.why}; {len(self._twins.ids)} of them fail when they ask for what is false"
            return self._closed(seen, Outcome.PASS, why)
        return self._closed(seen) if seen.timed_out else self._again(ran, taken, seen)

    # --- the runs -------------------------------------------------------------------------------------------------

    def _side_by_side(self) -> list[Ran]:
        """The first run has all tests, the others those that have twins. Builds wait for the first, which is the step of G2."""
        first, *others = plan(self._twins)
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
            self._finished(number, one.taken, Outcome.PASS if held else Outcome.FAIL, why)
        first_sec, *others_sec = (one.taken.run.completed.duration_sec for one in ran)
        self._spent_sec += max(first_sec, sum(others_sec))
        return ran

    def _with(self, build: Callable[[Sandbox], StepResult]) -> PytestCheck:
        return self._tests.on(dataclasses.replace(self._tests.subject, build=build))

    def _started(self) -> None:
        self._steps += 1
        check = self._tests.check
        step = f"{self._step}~{self._steps}"
        events.step_started(self._tests.subject.bench, TestsStarted, step, check.command or "", check.timeout_sec)

    def _finished(self, number: int, taken: Taken, outcome: Outcome, why: str) -> None:
        completed = taken.run.completed
        seen = Observation(
            outcome,
            why,
            exit_code=completed.exit_code,
            duration_sec=completed.duration_sec,
            timed_out=completed.timed_out,
            stdout=completed.stdout,
            stderr=completed.stderr,
        )
        events.tests_finished(self._tests.subject.bench, f"{self._step}~{number}", seen)

    # --- when something did not pass ------------------------------------------------------------------------------

    def _again(self, ran: Sequence[Ran], taken: Taken, seen: Observation) -> Observation:
        """What did not pass is run as it is: that is what people read.

        It comes last, and nothing it shows can make up for what was lost before: by then a candidate may know what is true.
        """
        ids = frozenset(self._tests.requirement.fail_to_pass + self._tests.requirement.pass_to_pass)
        lost = seen.failing if taken.run.whole and ids.issuperset(seen.failing) else ()
        self._started()
        alone = self._tests.take(Tests(self._tests.subject.tree, only=lost))
        self._spent_sec += alone.run.completed.duration_sec
        again = self._tests.decided(completed_by(taken, alone) if lost else alone)
        self._finished(self._steps, alone, again.outcome, "what did not pass, once more and as it is")
        again = dataclasses.replace(again, findings=tuple(dict.fromkeys((*seen.findings, *again.findings))))
        if again.outcome is not Outcome.PASS:
            return self._closed(again)
        if not self._reference_holds(ran, lost):
            why = f"{again.why}; no twins: with the reference, too, tests do not pass where others fail"
            return self._closed(again, Outcome.PASS, why)
        what = f"{len(seen.failing)} required tests ({seen.failing[0]})" if seen.failing else "the tests"
        why = f"{what} did not pass among tests that ask for what is false, and did when they were run again alone"
        return self._closed(dataclasses.replace(seen, stdout=again.stdout, stderr=again.stderr), Outcome.FAIL, why)

    def _reference_holds(self, ran: Sequence[Ran], lost: tuple[str, ...]) -> bool:
        """Whether right work comes through the very same runs."""
        for one in ran:
            own = self._with_reference(one, lost)
            if own is None:
                continue
            false = {test for function in one.asked.false for test in function.ids}
            outcomes = own.taken.run.transcript.outcomes()
            if not all(own.holds(function) for function in self._twins.functions):
                return False
            if any(outcomes.get(test) != "passed" for test in lost if test not in false):
                return False
        return True

    def _confirmed(self, ran: Ran) -> list[Function]:
        """Tests that passed what is false, and do not with the reference in the very same run."""
        fooled = ran.fooled()
        own = self._with_reference(ran) if fooled else None
        return fooled if own is None else [one for one in fooled if own.holds(one)]

    def _with_reference(self, ran: Ran, lost: tuple[str, ...] = ()) -> Ran | None:
        """The same run with the reference; None for a task that has none.

        Raises:
            TaskError: it cannot be run, which is nothing that the candidate did.
        """
        try:
            reference = on_reference(self._tests)
            if reference is None:
                return None
            wanted = tuple(dict.fromkeys((*self._twins.ids, *lost))) if lost else ran.asked.only
            return once(reference, dataclasses.replace(ran.asked, only=wanted))
        except (ContractError, PatchInvalid) as error:
            raise TaskError(f"the reference could not be run beside it: {error.message}") from error
        except NotBuilt as stop:
            raise TaskError(f"the reference could not be run beside it: {stop.step.why}") from stop

    def _closed(self, seen: Observation, outcome: Outcome | None = None, why: str = "") -> Observation:
        return dataclasses.replace(
            seen, outcome=outcome or seen.outcome, why=why or seen.why, duration_sec=self._spent_sec
        )


def _finding(function: Function, ran: Ran) -> Finding:
    line, what = ran.places.get(function, (None, ""))
    detail = f"{function.ids[0]} passes though its expectation was made false: {what}"
    return Finding(RULE, "gate", detail, path=function.file, line=line)
