"""Explanations of what is wrong with a driver."""

from __future__ import annotations

import pytest

from agentbench.acceptance.checks.probe_trial import ProbeTrial, find_problems
from agentbench.contract.schema import Check

pytestmark = [pytest.mark.req("G-14"), pytest.mark.component]


def trial(*results: str, problem: str = "") -> ProbeTrial:
    """Return a trial with results such as `a+` (passed) and `b-` (failed)."""
    outcomes = {"+": "passed", "-": "failed"}
    return ProbeTrial("program", problem, tuple((result[:-1], outcomes[result[-1]], "") for result in results))


def problems(base: ProbeTrial, solved: ProbeTrial | None, **required: tuple[str, ...]) -> str:
    check = Check.model_validate({"id": "p", "kind": "probe", "candidate": "x", "driver": "d.py", **required})
    return "; ".join(find_problems(check, base, solved))


def test_driver_that_tells_base_and_reference_apart_has_no_problem() -> None:
    assert problems(trial("a-", "b+"), trial("a+", "b+"), fail_to_pass=("a",)) == ""
    # A base repository without the program cannot answer, which is no fault of the driver.
    assert problems(trial(problem="the driver failed"), trial("a+")) == ""


def test_each_fault_is_named() -> None:
    assert "every result passes on the base repository" in problems(trial("a+"), trial("a+"))
    assert "results fail with the reference: a" in problems(trial("a-"), trial("a-"))
    assert "ids depend on the answers, so they cannot be required: b" in problems(trial("a-"), trial("a+", "b+"))
    assert "not reported with the reference: c" in problems(trial("a-"), trial("a+"), fail_to_pass=("a", "c"))
    assert problems(trial("a-"), trial(problem="no end line")) == "with the reference: no end line"
    assert problems(trial(problem="no end line"), None) == "on the base repository: no end line"
