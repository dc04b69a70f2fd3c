"""People's time is priced: decisions of operators in the record, reviews after the attempt in the reports."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from pathlib import Path

import pytest

from agentbench.execution.operator import pending_questions
from agentbench.reports.card import run_card
from agentbench.reports.sources import open_run
from agentbench.reports.summary import summarise
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import ASKS, make_suite, make_task

pytestmark = pytest.mark.end_to_end


def prices(folder: Path) -> Path:
    path = folder / "prices.csv"
    path.write_text("action_type,unit,unit_price\nreview,minute,2\ntool_call,call,0.1\n")
    return path


def reference_run(ab: Ab, folder: Path, *more: str | Path) -> Ran:
    strata = "strata: {kind: bugfix}\n"
    return ab.run_task(make_task(folder / "task", more=strata), "--agent", "reference", *more)


@pytest.mark.req("M-06a", "M-06b", "A-07a", "A-07b", "G-17b")
def test_reviews_are_priced_in_reports_and_labelled(ab: Ab, tmp_path: Path) -> None:
    ran = reference_run(ab, tmp_path, "--prices", prices(tmp_path))
    run, attempt = ran.json["run_dir"], ran.record["attempt_id"]
    recorded = ran.record["cost"]
    assert recorded["human"] == 0
    ab("adjudicate", run, "--attempt", attempt, "--truth", "correct", "--minutes", "15", "--reviewer", "ann")
    summary = ab("report", "summary", "--run", run, "--format", "json").json
    (cost,) = summary["cost"]
    assert cost["human"] == cost["reviews"] == cost["phases"]["review"] == pytest.approx(30)
    assert cost["total"] == pytest.approx(recorded["total"] + 30)
    assert cost["spent"] == pytest.approx(recorded["total"]), "as in --fail-on cost and ab query"
    assert sum(cost["phases"].values()) == pytest.approx(cost["total"])
    groups = {(group["dimension"], group["value"], group["outcome"]): group for group in summary["distributions"]}
    assert set(groups) == {("all", "all", "passed"), ("kind", "bugfix", "passed")}
    for group in groups.values():
        assert group["cost"] == pytest.approx([recorded["total"]] * 3), "distributions use the recorded cost"
    text = ab("report", "summary", "--run", run).stdout
    assert f"Spent: {recorded['total']:.4g} `usd`." in text
    assert "Reviews: 30 `usd`, part of human cost and total, but not of what was spent." in text
    card = run_card(summarise(open_run(ab.cwd / run)))
    assert f"cost         {recorded['total']:.4g} usd\nreviews      30 usd\n" in card
    assert "| cost by phase | setup | agent | review | acceptance | judge | storage | total |" in text
    assert "15 minutes by 1 reviewer, 30 usd" in ab("show", run).stdout
    (row,) = csv.DictReader(io.StringIO(ab("report", "summary", "--run", run, "--format", "csv").stdout))
    assert float(row["cost_human"]) == pytest.approx(30)
    assert float(row["cost"]) == pytest.approx(recorded["total"])
    assert float(row["phase_acceptance"]) == pytest.approx(recorded["phases"]["acceptance"])
    assert (row["overrun"], row["strata"]) == ("false", "kind=bugfix")
    assert ab("verify", run).code == 0


@pytest.mark.req("M-06a")
def test_reviews_without_a_price_are_stated(ab: Ab, tmp_path: Path) -> None:
    ran = reference_run(ab, tmp_path)
    run = ran.json["run_dir"]
    ab("adjudicate", run, "--attempt", ran.record["attempt_id"], "--truth", "correct", "--minutes", "15")
    text = ab("report", "summary", "--run", run).stdout
    assert "15 minutes of review have no price: the price table has no row `review`." in text


@pytest.mark.req("M-06a", "M-06b")
def test_waiting_for_an_operator_is_priced_in_the_record(ab: Ab, tmp_path: Path) -> None:
    (tmp_path / "script.yaml").write_text(ASKS)
    process = ab.start(
        *("run", "--suite", "tiny", "--tasks-dir", make_suite(tmp_path / "tasks", "one"), "--agent", "scripted"),
        *("--script", tmp_path / "script.yaml", "--prices", prices(tmp_path), "--operator", "--json"),
        *("--out", tmp_path / "out"),
    )
    run, question = wait_for_question(tmp_path / "out")
    decided = ab("operator", "decide", run, "--continue", "--reason", "it is fine", "--question", question)
    assert decided.code == 0, decided.stderr
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    (record,) = json.loads(out)["attempts"]
    folder = run / record["artifact_paths"]["task_dir"]
    (waited,) = re.findall(r'"waited_us":(\d+)', (folder / "events.jsonl").read_text())
    assert int(waited) > 0
    assert record["cost"]["human"] == pytest.approx(int(waited) / 60e6 * 2, abs=1e-5)
    assert record["cost"]["phases"]["review"] == record["cost"]["human"]
    assert ab("verify", run).code == 0


def wait_for_question(out: Path) -> tuple[Path, str]:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        for run in out.glob("*"):
            for question in pending_questions(run):
                return run, question.id
        time.sleep(0.05)
    raise AssertionError("no question was asked")


@pytest.mark.req("A-10")
def test_figure_shows_the_weights_of_the_suite(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    (tasks / "tiny" / "scenario.yaml").write_text("weights: {minimal: 0.7, trace: 0.1, maintainability: 0.2}\n")
    ran = ab("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "reference", "--json")
    ab("report", "summary", "--run", ran.json["run_dir"], "--format", "html", "--out", tmp_path / "page")
    (weights,) = re.findall(r'"weights":(\[\{.*?\]),"projection"', (tmp_path / "page" / "index.html").read_text())
    assert json.loads(weights) == [
        {"weights": {"minimal": 0.7, "trace": 0.1, "maintainability": 0.2}, "runs": ["reference"], "tasks": 1}
    ]
