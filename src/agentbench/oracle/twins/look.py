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
from agentbench.oracle.checks import Subject
from agentbench.oracle.invocation import Invocation, understand
from agentbench.oracle.protected import GradedTree
from agentbench.oracle.twins.known import twins_of
from agentbench.oracle.twins.running import Altered, Function, Ran, halves, once
from agentbench.trace.events import TestsStarted

RULE = "passes_false_tests"
FEW = 1
"""Of so few tests two runs could be guessed; they are looked at twice as often."""
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
    functions = tuple(one for one in known.functions if all(seen.tests.get(test) == "passed" for test in one.ids))
    return _Look(subject, check, invocation, functions)(seen) if functions else seen


Bad = tuple[Outcome, str, tuple[Finding, ...]]


@dataclasses.dataclass(slots=True)
class _Look:
    subject: Subject
    check: Check
    invocation: Invocation
    functions: tuple[Function, ...]
    runs: int = 0
    spent_sec: float = 0.0

    def __call__(self, seen: Observation) -> Observation:
        try:
            for _ in range(2 if len(self.functions) <= FEW else 1):
                bad = self._pair()
                if bad is not None:
                    return self._closed(seen, *bad)
        except HarnessError as error:
            return self._closed(seen, Outcome.ERROR, f"our own trouble: {error.message}", ())
        except (TaskError, PatchInvalid) as error:
            return self._closed(seen, Outcome.FAIL, f"the tests could not be run again: {error.message}", ())
        count = sum(len(one.ids) for one in self.functions)
        return self._closed(seen, Outcome.PASS, f"{seen.why}; {count} of them fail when they ask for what is false", ())

    def _pair(self) -> Bad | None:
        """Two runs side by side: each test is false in one of them."""
        for ran in self._logged(*(Altered(self.functions, part) for part in halves(self.functions))):
            # What got lost gets one more chance, by itself: tests do flake, and more so beside others.
            again = not ran.fooled() and not ran.held
            bad = _bad(self._logged(ran.asked)[0] if again else ran)
            if bad is not None:
                return bad
        return None

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


def _bad(ran: Ran) -> Bad | None:
    """What is wrong with one run; None if nothing is."""
    fooled = ran.fooled()
    if fooled:
        why = f"{len(fooled)} tests pass though what they were made to ask for is false"
        return Outcome.FAIL, why, tuple(_finding(one, ran) for one in fooled[:SHOWN])
    lost = [test for one in ran.asked.functions if not ran.holds(one) for test in one.ids]
    if lost:
        return Outcome.FAIL, f"{len(lost)} required tests that passed did not when they were run again: {lost[0]}", ()
    return None


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
