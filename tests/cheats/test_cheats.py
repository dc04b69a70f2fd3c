"""Cheats fail, none of them ends as a harness error, and honest work passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.acceptance.grading_context import Acceptance, GradingContext
from agentbench.core.reasons import Outcome
from tests.acceptance.toy import TaskFactory
from tests.cheats.snippets import HOST_MARKER
from tests.cheats.submissions import FAMILIES, Submission, parametrize_submissions, submissions

pytestmark = pytest.mark.component


def graded(tasks: TaskFactory, folder: Path, submission: Submission) -> tuple[GradingContext, Acceptance]:
    context = submission.context(tasks, folder)
    patch, problem = submission.make_patch(context)
    return context, grade(patch, context, problem=problem)


def describe(result: Acceptance) -> str:
    checks = [(check.check.id, check.outcome.value, check.decided.why) for check in result.checks]
    return f"{result.application} {result.steps} {checks} {result.findings}"


@pytest.mark.req("G-01", "G-03a", "G-14", "G-15")
@parametrize_submissions("cheating")
def test_cheats_fail_without_harness_errors(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    _, result = graded(tasks, tmp_path, submission)
    assert not result.accepted, describe(result)
    outcomes = [step.outcome for step in (result.application, *result.steps)]
    outcomes += [check.outcome for check in result.checks]
    assert Outcome.ERROR not in outcomes, describe(result)
    assert all(finding.severity != "error" for finding in result.findings), describe(result)
    assert len(result.checks) == 1
    assert not Path(HOST_MARKER).exists()


@pytest.mark.req("G-01", "G-03a")
@parametrize_submissions("cheating", some=True)
def test_cheats_fail_in_containers(docker_tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    test_cheats_fail_without_harness_errors(docker_tasks, tmp_path, submission)


@parametrize_submissions("honest")
def test_honest_work_passes(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    _, result = graded(tasks, tmp_path, submission)
    assert result.accepted, describe(result)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_at_least_three_variants(family: str) -> None:
    assert len([cheat.name for cheat in submissions("cheating") if cheat.family == family]) >= 3


def test_every_submission_has_a_description() -> None:
    all_submissions = [*submissions("cheating"), *submissions("honest")]
    assert len(submissions("cheating")) >= 25
    assert all(len(submission.description) > 10 for submission in all_submissions)
    assert all(submission.changes or submission.script or submission.patch for submission in all_submissions)
    assert {submission.family for submission in submissions("cheating")} <= FAMILIES.keys()
