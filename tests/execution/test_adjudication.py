"""Adjudication from a run to its reports: error rates per category in every format."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest
import yaml

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_task

pytestmark = [pytest.mark.req("A-05"), pytest.mark.end_to_end]

FIX = [{"apply_patch": {"unified_diff": PATCH}}]
STEPS: dict[str, list[dict[str, dict[str, str]]]] = {
    "too-strict": [],
    "wrong": [],
    "escaped": FIX,
    "right": FIX,
    "unclear": [],
}


@pytest.fixture
def reviewed(tmp_path: Path, shared_state: Path) -> tuple[Ab, Path]:
    """A run with two passed and three rejected attempts."""
    ab = Ab(tmp_path, {"PATH": os.environ["PATH"], "AB_STATE": str(shared_state)})
    (tmp_path / "scripts").mkdir()
    for name, steps in STEPS.items():
        make_task(tmp_path / "tasks" / "tiny" / name, task_id=name)
        (tmp_path / "scripts" / f"{name}.yaml").write_text(yaml.safe_dump({"steps": steps}))
    ran = ab("run", "--suite", "tiny", "--agent", "scripted", "--script", tmp_path / "scripts", "--json")
    assert ran.code == 0, ran.stderr
    return ab, tmp_path / ran.json["run_dir"]


def test_rates_per_category_have_their_denominators_in_every_report(reviewed: tuple[Ab, Path], tmp_path: Path) -> None:
    ab, run = reviewed
    review = ("adjudicate", run, "--reviewer", "ada", "--minutes", "2")
    wrong = ab(*review, "--attempt", "escaped", "--truth", "incorrect", "--category", "acceptance.skript")
    assert wrong.code == 2
    assert "unknown category 'acceptance.skript' (did you mean `acceptance.script`?)" in wrong.stderr
    assert not (run / "adjudications.jsonl").exists()
    for attempt, *found in (
        ("too-strict", "correct"),
        ("wrong", "incorrect"),
        ("escaped", "incorrect", "--category", "acceptance.script", "--category", "policy.scope"),
        ("right", "correct"),
        ("unclear", "undecidable"),
    ):
        done = ab(*review, "--attempt", attempt, "--truth", *found)
        assert done.code == 0, done.stderr

    summary = ab("report", "summary", "--run", run, "--format", "json").json
    script, scope = summary["truth"]
    assert (script["category"], scope["category"]) == ("acceptance.script", "policy.scope")
    assert (script["false_positive"]["count"], script["false_positive"]["total"]) == (1, 2)
    assert (script["false_negative"]["count"], script["false_negative"]["total"]) == (1, 2)
    assert (script["correct_rejected"], script["defects_passed"]) == (1, 1)
    assert (scope["false_positive"]["total"], scope["false_negative"]["total"]) == (0, 1)
    assert summary["adjudicated_attempts"] == {
        "correct": 2, "incorrect": 2, "undecidable": 1, "disputed": 0, "unmapped": 0
    }  # fmt: skip

    text = ab("report", "summary", "--run", run).stdout
    assert "5 adjudications of 5 attempts, 10 minutes of review. Not in the rates: 1 undecidable." in text
    assert (
        "| category | false positives of flagged | 95% CI | correct but rejected | false negatives of actual |" in text
    )
    assert "| `acceptance.script` | 1 of 2 | 9.5% to 90.5% | 1 | 1 of 2 | 9.5% to 90.5% | 1 |" in text

    rows = list(csv.DictReader(io.StringIO(ab("report", "summary", "--run", run, "--format", "csv").stdout)))
    columns = {row["task"]: (row["adjudicated"], row["flagged_categories"], row["actual_categories"]) for row in rows}
    assert columns == {
        "too-strict": ("correct", "acceptance.script", ""),
        "wrong": ("incorrect", "acceptance.script", "acceptance.script"),
        "escaped": ("incorrect", "", "acceptance.script policy.scope"),
        "right": ("correct", "", ""),
        "unclear": ("undecidable", "acceptance.script", ""),
    }

    page = tmp_path / "page"
    assert ab("report", "summary", "--run", run, "--format", "html", "--out", page).code == 0
    assert '"correct_rejected":1' in (page / "index.html").read_text(encoding="utf-8").replace(": ", ":")
    assert ab("verify", run).stdout.startswith("VERIFIED")
