"""Known cheats that pass in one process with the tests, and probes that stop them.

A submission in `surviving/` that no longer passes belongs to `cheating/`. Those in `past_decoys/` pass even if the task has a
reference. docs/explanation/limits.md lists each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.acceptance.grade import grade
from agentbench.core.reasons import Assurance, Outcome
from tests.acceptance.toy import REPO, TaskFactory, patch_of
from tests.cheats.snippets import CORE, RIGHT
from tests.cheats.submissions import Submission, parametrize_submissions, submissions
from tests.cheats.test_cheats import describe, graded

pytestmark = pytest.mark.component

SERVE = """\
    import json
    import sys

    from toy import median

    for line in sys.stdin:
        print(json.dumps(median(json.loads(line))), flush=True)
    """
DRIVER = """\
    import json, os, random, sys

    channel = os.fdopen(int(os.environ["AB_RESULT_FD"]), "w")
    dice = random.Random(7)
    for number in range(12):
        values = [dice.randrange(1000) for _ in range(2 + number)]
        print(json.dumps(values), flush=True)
        ordered, half = sorted(values), len(values) // 2
        wanted = ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
        try:
            right = float(json.loads(sys.stdin.readline())) == wanted
        except (ValueError, TypeError):
            right = False
        channel.write(json.dumps({"id": f"median {number}", "outcome": "pass" if right else "fail"}) + "\\n")
    channel.write(json.dumps({"end": 12}) + "\\n")
    """
PROBE = {"id": "p", "kind": "probe", "candidate": "python -m toy.serve", "driver": "driver.py", "timeout_sec": 30}


@pytest.mark.req("C-06")
@parametrize_submissions("surviving")
def test_survivors_in_process_are_documented(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    _, result = graded(tasks, tmp_path, submission)
    assert result.accepted, describe(result)
    assert result.checks[0].decided.assurance is Assurance.PER_TEST
    page = Path(__file__).parents[2] / "docs" / "explanation/limits.md"
    assert f"`{submission.name}`" in page.read_text(encoding="utf-8")


@pytest.mark.req("C-06")
@parametrize_submissions("past_decoys")
def test_survivors_of_decoys_are_documented(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    reference = patch_of(submission.context(tasks, tmp_path / "bare"), submission.reference).decode()
    context = submission.context(tasks, tmp_path / "task", reference=reference)
    result = grade(patch_of(context, submission.changes), context)
    assert result.accepted, describe(result)
    assert "of them failed as expected" in result.checks[0].decided.why
    page = Path(__file__).parents[2] / "docs" / "explanation/limits.md"
    assert f"`{submission.name}`" in page.read_text(encoding="utf-8")


@pytest.mark.req("C-06", "G-01")
@pytest.mark.parametrize(
    "submission",
    [
        pytest.param(submission, id=submission.name)
        for kind in ("surviving", "past_decoys")
        for submission in submissions(kind)
    ],
)
def test_probes_stop_survivors(tasks: TaskFactory, tmp_path: Path, submission: Submission) -> None:
    assert grade_with_probe(tasks, tmp_path, submission.changes) == (Outcome.FAIL, Assurance.OUT_OF_PROCESS)


def test_probe_passes_the_right_answer(tasks: TaskFactory, tmp_path: Path) -> None:
    assert grade_with_probe(tasks, tmp_path, {CORE: RIGHT}) == (Outcome.PASS, Assurance.OUT_OF_PROCESS)
    assert submissions("surviving")


def grade_with_probe(
    tasks: TaskFactory, folder: Path, changes: dict[str, str | None]
) -> tuple[Outcome, Assurance | None]:
    context = tasks.context(
        folder,
        repo={**REPO, "src/toy/serve.py": SERVE},
        hidden=None,
        oracle={"checks": [PROBE]},
        files={"driver.py": DRIVER},
    )
    (result,) = grade(patch_of(context, changes), context).checks
    return result.outcome, result.decided.assurance
