"""The second look at a check that passed: would it also have passed what is not true?"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from agentbench.contract.schema import Check
from agentbench.core.errors import ContractError, HarnessError, PatchInvalid, TaskError
from agentbench.core.reasons import Outcome
from agentbench.core.threads import threads
from agentbench.oracle import events
from agentbench.oracle.bench import Finding, Observation
from agentbench.oracle.checks import NotBuilt, Subject
from agentbench.oracle.invocation import Invocation, understand
from agentbench.oracle.protected import GradedTree
from agentbench.oracle.pytest_verdict import forgeries
from agentbench.oracle.twins.known import subject_of, twins_of
from agentbench.oracle.twins.running import Altered, Function, Ran, halves, once
from agentbench.trace.events import TestsStarted

RULE = "passes_false_tests"
PAIRS = {1: 3, 2: 2}
"""Of few tests that must come to pass, what two runs ask for could be guessed; they are looked at more often."""
SHOWN = 5

Reference = Callable[[], GradedTree | None]


def second_look(subject: Subject, check: Check, seen: Observation, reference: Reference) -> Observation:
    """Hold a passed check against the twins of its tests. Anything else is handed back as it is.

    Raises:
        RecordError: the log could not be written.
    """
    invocation = understand(check.command or "") if check.parser == "pytest" and check.kind != "probe" else None
    if seen.outcome is not Outcome.PASS or invocation is None:
        return seen
    try:
        known = twins_of(subject.bench, check, invocation, reference)
    except HarnessError as error:
        return dataclasses.replace(seen, outcome=Outcome.ERROR, why=f"our own trouble: {error.message}")
    except (TaskError, ContractError, PatchInvalid) as error:
        return dataclasses.replace(seen, why=f"{seen.why}; no second look: {error.message}")
    except NotBuilt as stop:
        return dataclasses.replace(
            seen, why=f"{seen.why}; no second look: the reference does not build: {stop.step.why}"
        )
    if not known.functions:
        return seen
    return _Look(subject, check, invocation, known.functions, reference)(seen)


Bad = tuple[Outcome, str, tuple[Finding, ...]]


@dataclasses.dataclass(slots=True)
class _Look:
    subject: Subject
    check: Check
    invocation: Invocation
    functions: tuple[Function, ...]
    reference: Reference
    runs: int = 0
    spent_sec: float = 0.0

    def __call__(self, seen: Observation) -> Observation:
        try:
            wanted, chances = PAIRS.get(sum(one.mends for one in self.functions), 1), 1
            while wanted:
                bad = self._pair()
                if bad is None:
                    wanted -= 1
                elif bad[2] or not chances:
                    return self._closed(seen, *bad)
                else:
                    chances -= 1  # tests do flake; the next pair is another one
        except HarnessError as error:
            return self._closed(seen, Outcome.ERROR, f"our own trouble: {error.message}", ())
        except (TaskError, PatchInvalid) as error:
            return self._closed(seen, Outcome.FAIL, f"the tests could not be run again: {error.message}", ())
        count = sum(len(one.ids) for one in self.functions)
        return self._closed(seen, Outcome.PASS, f"{seen.why}; {count} of them fail when they ask for what is false", ())

    def _pair(self) -> Bad | None:
        """Two runs side by side: each test is false in one of them."""
        for ran in self._logged(*(Altered(self.functions, part) for part in halves(self.functions))):
            forged = forgeries(ran.run)
            if forged:
                return Outcome.FAIL, forged[0].detail, tuple(forged)
            fooled = self._confirmed(ran)
            if fooled:
                why = f"{len(fooled)} tests pass though what they were made to ask for is false"
                return Outcome.FAIL, why, tuple(_finding(one, ran) for one in fooled[:SHOWN])
            lost = [test for one in ran.asked.functions if not ran.holds(one) for test in one.ids]
            if lost:
                why = f"{len(lost)} required tests that passed did not when they were run again: {lost[0]}"
                return Outcome.FAIL, why, ()
        return None

    def _confirmed(self, ran: Ran) -> list[Function]:
        """Tests that passed what is false, and do not with the reference in the very same run."""
        fooled = ran.fooled()
        tree = self.reference() if fooled else None
        if tree is None:
            return fooled
        own = once(subject_of(self.subject.bench, tree), self.check, self.invocation, ran.asked)
        return [one for one in fooled if own.holds(one)]

    def _logged(self, *asked: Altered) -> list[Ran]:
        bench, check = self.subject.bench, self.check
        steps = [f"{check.id}~{self.runs + number}" for number in range(1, len(asked) + 1)]
        self.runs += len(asked)
        for step in steps:
            events.step_started(bench, TestsStarted, step, check.command or "", check.timeout_sec)
        with threads(len(asked), "twins", lambda: None) as pool:
            ran = list(pool.map(lambda one: once(self.subject, check, self.invocation, one), asked))
        for step, one in zip(steps, ran, strict=True):
            events.tests_finished(bench, step, _observed(one))
        self.spent_sec += max(one.run.completed.duration_sec for one in ran)
        return ran

    def _closed(self, seen: Observation, outcome: Outcome, why: str, findings: tuple[Finding, ...]) -> Observation:
        return dataclasses.replace(
            seen,
            outcome=outcome,
            why=why,
            duration_sec=seen.duration_sec + self.spent_sec,
            findings=(*seen.findings, *findings),
        )


def _observed(ran: Ran) -> Observation:
    completed = ran.run.completed
    false, all_of_them = (sum(len(one.ids) for one in ones) for ones in (ran.asked.false, ran.asked.functions))
    return Observation(
        Outcome.PASS if ran.held else Outcome.FAIL,
        f"{false} of {all_of_them} tests ask for what is false",
        exit_code=completed.exit_code,
        duration_sec=completed.duration_sec,
        timed_out=completed.timed_out,
        stdout=completed.stdout,
        stderr=completed.stderr,
    )


def _finding(function: Function, ran: Ran) -> Finding:
    place = ran.places.get(function)
    detail = f"{function.ids[0]} passes though its expectation was made false: {place.what if place else ''}"
    return Finding(RULE, "gate", detail, path=function.file, line=place.line if place else None)
