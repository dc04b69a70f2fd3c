"""A task is removed only if recorded evidence shows that it is invalid."""

from __future__ import annotations

import pytest

from agentbench.core.reasons import InvalidCause, Outcome, Reason, RunStatus, TerminationCode
from agentbench.pilot.decisions.flakes import FlakeScreen
from agentbench.pilot.decisions.observations import Observation, observe
from agentbench.pilot.decisions.removals import RemovalCause, claim_evidence, contrary_evidence
from tests.pilot.samples import attempt, lines, pilot, screen, screened
from tests.reports.runs import record

pytestmark = [pytest.mark.component, pytest.mark.req("L-01")]

LINES = [line for line in lines(pilot()) if line.task_id == "one"]
NOOP = [line for line in LINES if line.method == "noop"]
REFERENCE = next(line for line in LINES if line.method == "reference")


def evidence(cause: RemovalCause, *attempts: Observation, screen_of: FlakeScreen | None = None) -> str | None:
    return claim_evidence("one", cause, screen_of, attempts)


def test_flake_claim_needs_differing_outcomes_of_one_patch() -> None:
    same = [attempt(line, passed=False, patch="empty", attempt_id=f"id{line.repeat}") for line in NOOP]
    assert evidence(RemovalCause.FLAKY, *same) is None
    differing = [same[0], attempt(NOOP[1], patch="empty", attempt_id="other")]
    assert evidence(RemovalCause.FLAKY, *differing) == "the same patch: fail in id1, pass in other"
    # Another patch, or another version of the task, may have another outcome.
    assert evidence(RemovalCause.FLAKY, same[0], attempt(NOOP[1], patch="something")) is None
    assert evidence(RemovalCause.FLAKY, same[0], attempt(NOOP[1], patch="empty", contract_id="other")) is None
    # An error is no outcome.
    assert evidence(RemovalCause.FLAKY, same[0], attempt(NOOP[1], patch="empty", checks=Outcome.ERROR)) is None


def test_flake_screen_supports_a_claim() -> None:
    flaky = screen(screened("one", valid=False, flaky=("answer",), why="flaky: answer"))
    assert evidence(RemovalCause.FLAKY, screen_of=flaky) == "flake screen: differing outcomes of answer"
    assert evidence(RemovalCause.INVALID_ORACLE, screen_of=flaky) is None


def test_oracle_claim_needs_a_rejected_reference_or_an_accepted_base() -> None:
    assert evidence(RemovalCause.INVALID_ORACLE, attempt(REFERENCE)) is None
    assert "reject the reference" in str(evidence(RemovalCause.INVALID_ORACLE, attempt(REFERENCE, passed=False)))
    # A method that fails does not make a task invalid.
    lazy = next(line for line in LINES if line.method == "lazy")
    assert evidence(RemovalCause.INVALID_ORACLE, attempt(lazy, passed=False)) is None
    solved = attempt(
        NOOP[0],
        passed=False,
        status=RunStatus.INVALID,
        cause=InvalidCause.TASK,
        reason=Reason.BASELINE_NOT_FAILING,
        termination=TerminationCode.BASELINE_NOT_FAILING,
    )
    assert "pass on the base repository" in str(evidence(RemovalCause.INVALID_ORACLE, solved))


@pytest.mark.parametrize("agent, rejects", [("reference", True), ("oracle", True), ("scripted", False)])
def test_reference_is_recognised_by_the_recorded_agent(agent: str, rejects: bool) -> None:
    failed = observe(record("one", "fail", variant="tuned", agent=agent))
    assert (evidence(RemovalCause.INVALID_ORACLE, failed) is not None) is rejects


def test_setup_claim_needs_a_failed_setup() -> None:
    assert evidence(RemovalCause.SETUP, attempt(NOOP[0])) is None
    failed = attempt(NOOP[0], passed=False, status=RunStatus.INVALID, termination=TerminationCode.SETUP_FAILED)
    assert "setup failed" in str(evidence(RemovalCause.SETUP, failed))


def test_refusal_says_what_the_records_show() -> None:
    shown = contrary_evidence("one", screen(), [attempt(REFERENCE), attempt(NOOP[0], passed=False)])
    assert shown.startswith("1 of 2 attempts at it passed")
    assert shown.endswith("flake screen: baseline fail, reference pass, stable")
