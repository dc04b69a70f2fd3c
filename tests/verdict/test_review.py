from __future__ import annotations

import pytest

from agentbench.core.reasons import Outcome, TerminationCode
from agentbench.trace.events import Excerpt, JudgeResult, ScorerResult
from agentbench.verdict.score import WorkspaceVerdict
from tests.verdict.logs import bound, briefed, checked, ended, extracted, found, graded, opened, verdict

pytestmark = pytest.mark.synthetic


def scored(result: str, *, required: bool = True, ppm: int = 0, kind: str = "command") -> ScorerResult:
    return ScorerResult.model_validate(
        {"name": "s", "scorer_type": kind, "required": required, "verdict": result, "score_ppm": ppm, "detail": ""}
    )


def judged(result: str) -> JudgeResult:
    return JudgeResult.model_validate(
        {"verdict": result, "scores": {}, "failure_mode": None, "model": "m", "reasoning": Excerpt()}
    )


@pytest.mark.req("G-17a")
def test_ordinary_pass_or_failure_needs_no_review() -> None:
    assert not verdict(graded(checked())).needs_review
    assert not verdict(graded(checked(Outcome.FAIL))).needs_review


@pytest.mark.req("G-17a")
def test_violations_undecided_checks_and_pipeline_files_need_review() -> None:
    assert verdict(graded(checked(), found("penalty"))).needs_review
    assert verdict(graded(checked(Outcome.ERROR))).needs_review
    touched = [
        opened(),
        bound(),
        briefed(),
        ended(),
        extracted(".github/workflows/ci.yml", "src/a.py", size=0),
        checked(),
    ]
    (why,) = verdict(touched).review
    assert ".github/workflows/ci.yml" in why
    assert "src/a.py" not in why


@pytest.mark.req("G-13", "G-17a")
@pytest.mark.parametrize(
    "outcome, signal, reason",
    [
        (Outcome.PASS, scored("FAIL"), "scorers say FAIL, the gates say PASS"),
        (Outcome.FAIL, scored("PASS"), "scorers say PASS, the gates say FAIL"),
        (Outcome.PASS, judged("FAIL"), "the judge says FAIL, the gates say PASS"),
        (Outcome.FAIL, judged("PASS"), "the judge says PASS, the gates say FAIL"),
    ],
)
def test_disagreeing_scorer_or_judge_needs_review_and_changes_nothing(
    outcome: Outcome, signal: ScorerResult | JudgeResult, reason: str
) -> None:
    decided = verdict(graded(checked(outcome), signal))
    assert decided.passed is (outcome is Outcome.PASS)
    assert decided.review == (reason,)


@pytest.mark.req("G-17a")
def test_unparseable_judge_needs_no_review() -> None:
    assert not verdict(graded(checked(), judged("unparseable"))).needs_review


@pytest.mark.req("G-11")
@pytest.mark.parametrize(
    "results,expected",
    [
        ([], ("N/A", None)),
        ([scored("N/A")], ("N/A", None)),
        ([scored("ERROR")], ("N/A", None)),
        ([scored("PASS", ppm=1_000_000), scored("ERROR")], ("PASS", 1.0)),
        ([scored("PASS", ppm=1_000_000), scored("FAIL", required=False)], ("PASS", 0.5)),
        ([scored("PASS", ppm=1_000_000), scored("FAIL")], ("FAIL", 0.5)),
        ([scored("FAIL", kind="llm_judge")], ("PASS", 0.0)),
    ],
    ids=["none", "n/a", "error", "error beside pass", "advisory", "required", "judge never gates"],
)
def test_workspace_verdict_follows_required_scorers(
    results: list[ScorerResult], expected: tuple[str, float | None]
) -> None:
    decided = verdict(graded(checked(), *results))
    assert decided.workspace == WorkspaceVerdict(*expected)  # type: ignore[arg-type]
    assert decided.passed


@pytest.mark.parametrize(
    "code,badge",
    [
        (TerminationCode.AGENT_STOPPED, "completed"),
        (TerminationCode.WALL_CAP, "stopped"),
        (TerminationCode.OSCILLATION, "stopped"),
        (TerminationCode.AGENT_CRASHED, "crashed"),
        (TerminationCode.SANDBOX_ERROR, "error"),
        (TerminationCode.SAFETY, "aborted"),
        (TerminationCode.SETUP_FAILED, "not_started"),
    ],
)
def test_badge_follows_the_termination_code(code: TerminationCode, badge: str) -> None:
    assert {verdict(graded(checked(outcome), ending=ended(code))).run_badge for outcome in Outcome} == {badge}


def test_badge_without_termination_depends_on_grading() -> None:
    assert verdict([one for one in graded(checked()) if one.type != "termination"]).run_badge == "completed"
    assert verdict([opened()]).run_badge == "error"
