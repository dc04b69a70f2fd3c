"""What several runs of the same tests come to, each test taken from where it asked for the truth. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from agentbench.acceptance.checks.pytest.decide import sound
from agentbench.acceptance.checks.pytest.records import TestRecord, Transcript
from agentbench.acceptance.checks.pytest.run import PytestRun
from agentbench.acceptance.decoys.decoy_runs import DecoyRun

FAILED, PASSED = 1, 0
"""How pytest ends."""


def combined(ran: Sequence[DecoyRun], *, passing_canary: bool) -> PytestRun:
    """The first run, which has all tests, with the results of those that ask for the truth elsewhere.

    A run that cannot be believed has no results. Where a test asked for the truth more than once, the worst counts.
    """
    first, *others = ran
    false = {test for function in first.assignment.false for test in function.ids}
    told: dict[str, TestRecord] = {
        test: record for test, record in first.run.transcript.tests.items() if test not in false
    }
    for one in others:
        if not sound(one.run, passing_canary=passing_canary):
            continue
        there = one.run.transcript.tests
        for function in one.assignment.plan.targets:
            for test in () if function in one.assignment.false else function.ids:
                if test in there and _worse(there[test], told.get(test)):
                    told[test] = there[test]
    return _with(first.run, told)


def _worse(one: TestRecord, than: TestRecord | None) -> bool:
    return than is None or (one.outcome != "passed" and than.outcome == "passed")


def _with(run: PytestRun, told: Mapping[str, TestRecord]) -> PytestRun:
    before = run.transcript
    transcript = dataclasses.replace(before, tests=dict(told))
    transcript.status = _status(before, transcript.outcomes().values())
    return dataclasses.replace(run, transcript=transcript)


def _status(before: Transcript, outcomes: Collection[str]) -> int | None:
    """How pytest would have ended with these outcomes."""
    if before.status not in {PASSED, FAILED}:
        return before.status
    return FAILED if before.uncollected or "failed" in outcomes or "broken" in outcomes else PASSED
