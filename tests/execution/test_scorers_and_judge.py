"""Scorers, judge and gates of one attempt."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from tests.execution.conftest import Ab
from tests.execution.tasks import make_task

pytestmark = pytest.mark.end_to_end

SCORERS = """
scorers:
  - {name: answer, type: command, command: "grep -qx 42 answer.txt"}
  - {name: quiet, type: command, command: "sleep 1; test ! -e later.txt", timeout_s: 20}
  - {name: small, type: max_files_changed, limit: 1}
  - {name: notes, type: file_exists, path: notes/extra.txt}
  - {name: scope, type: allowed_paths, patterns: ["answer.txt"], required: false}
  - {name: skips, type: no_new_skips}
  - {name: tone, type: llm_judge, rubric: "be kind"}
"""


@pytest.mark.req("G-10", "G-11", "G-13")
def test_scorers_run_in_the_workspace_after_the_agent(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t", more=SCORERS)
    line = "echo 42 >answer.txt; mkdir notes; echo hi >notes/extra.txt; (sleep 0.5; touch later.txt) >/dev/null 2>&1 &"
    done = ab.by_command(task, line)
    record = done.record
    rows = {scorer["name"]: (scorer["verdict"], scorer["required"], scorer["score"]) for scorer in record["scorers"]}
    assert rows == {
        "answer": ("PASS", True, 1.0),
        "quiet": ("PASS", True, 1.0),
        "small": ("FAIL", True, 0.0),
        "notes": ("PASS", True, 1.0),
        "scope": ("FAIL", False, 0.0),
        "skips": ("N/A", False, 0.0),
        "tone": ("N/A", False, 0.0),
    }
    assert (record["workspace_verdict"], record["mean_score"]) == ("FAIL", 0.6)
    assert record["result"]["passed"] is True
    assert record["judge"] is None
    # `ab show`: the decision first, a required scorer's failure in full, an advisory one in one line, no judge.
    text = ab("show", done.json["run_dir"], "--task", "answer").stdout
    assert text.startswith("PASS")
    assert "scorers say FAIL, the gates say PASS" in text
    assert "disagreement: contract PASS, scorers FAIL" in text
    assert "\n      notes/extra.txt\n" in text.split("2 changed, 1 allowed")[1].split("allowed_paths")[0]
    assert text.count("notes/extra.txt\n") == 1
    assert "no judge configured" in text
    # A scorer that does not apply has no score.
    (tone,) = (line.split() for line in text.splitlines() if line.split()[:1] == ["tone"])
    assert tone[:4] == ["tone", "llm_judge", "N/A", "advisory"]
    assert "0.0" not in tone


ANSWER = {
    "task_completion": 4,
    "instruction_adherence": 5,
    "efficiency": 5,
    "facts": [{"claim": "answer.txt says 42", "verdict": "refuted", "evidence": "diff"}],
    "reasoning": "Not convincing.",
    "verdict": "FAIL",
    "failure_mode": "wrong_behaviour",
}


@pytest.mark.req("G-12", "G-13")
def test_judge_is_recorded_and_replayed(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t", more=SCORERS)
    script = tmp_path / "judge.yaml"
    script.write_text(yaml.safe_dump({"answers": [{"text": json.dumps(ANSWER)}, {"text": "I would say it passes."}]}))
    options = ("--judge-model", f"scripted:{script}", "--judge-repeats", "2")
    done = ab.run_task(task, "--agent", "reference", *options)
    record = done.record
    assert record["result"]["passed"] is True
    assert record["needs_review"] is True
    judge = record["judge"]
    assert (judge["verdict"], judge["failure_mode"], judge["task_completion"]) == ("FAIL", "wrong_behaviour", 4)
    assert (judge["verdicts"], judge["agreement"]) == (["FAIL", "unparseable"], 0.5)
    assert judge["facts"] == ANSWER["facts"]
    # The judge's usage does not count as the agent's.
    assert (record["usage"]["model_requests"], record["usage"]["prompt_tokens"]) == (0, 0)
    # Its cost is a separate item and part of the total.
    cost = record["cost"]
    assert judge["prompt_tokens"] > judge["completion_tokens"] > 0
    assert cost["judge"] > 0
    assert cost["lm"] == 0
    assert cost["total"] == pytest.approx(sum(cost[item] for item in ("lm", "exec", "human", "overhead", "judge")))
    (run,) = done.json["run_dirs"]
    assert ab("verify", run).code == 0
    (spent,) = ab("report", "summary", "--run", run, "--format", "json").json["cost"]
    assert spent["judge"] == pytest.approx(cost["judge"])
    shown = ab("show", run, "--task", "answer")
    assert shown.stdout.startswith("PASS")
    for words in (
        "judge",
        "FAIL",
        "wrong_behaviour",
        "refuted",
        "the judge says FAIL, the gates say PASS",
        "agreement",
    ):
        assert words in shown.stdout
    again = ab.run_task(task, "--agent", "reference", "--judge-model", f"recorded:{run}", "--judge-repeats", "2")
    assert again.record["judge"]["verdicts"] == ["FAIL", "unparseable"]


@pytest.mark.req("G-12", "M-07a")
def test_judge_counts_against_the_total_budget(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t")
    script = tmp_path / "judge.yaml"
    answer = {"text": json.dumps(ANSWER), "usage": {"prompt": 10, "completion": 1000}}
    script.write_text(yaml.safe_dump({"answers": [answer]}))
    options = ("--judge-model", f"scripted:{script}", "--total-usd", "0.03", "--repeats", "2")
    records = ab.run_task(task, "--agent", "noop", *options).json["attempts"]
    judged, not_started = records
    assert judged["judge"]["verdict"] == "FAIL"
    assert judged["cost"]["judge"] > 0.03
    assert (not_started["judge"], not_started["termination"]["code"]) == (None, "total_budget")


@pytest.mark.req("G-12")
def test_unusable_judge_is_rejected_before_the_run(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t")
    done = ab.run_task(task, "--agent", "noop", "--judge-model", "scripted:nowhere.yaml")
    assert done.code == 2
    assert "--judge-model scripted:nowhere.yaml: no such file" in done.stderr
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.req("G-09", "G-13")
def test_scorer_that_disagrees_with_grading_is_reported(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t", more=SCORERS)
    fake = "printf '#!/bin/sh\\nexit 0\\n' >/opt/env/bin/grep && chmod +x /opt/env/bin/grep"
    record = ab.by_command(task, fake).record
    assert record["result"]["passed"] is False
    verdicts = {scorer["name"]: scorer["verdict"] for scorer in record["scorers"]}
    assert verdicts["answer"] == "PASS"
    assert "oracle.disagreement" in {tag["id"] for tag in record["tags"]}
    assert record["needs_review"] is True


@pytest.mark.req("G-04", "G-05", "G-18")
def test_score_uses_the_weights_of_the_suite(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t", more="rubric: {lambda: 2.0, envelope: {files: 4, lines: 100}}\n")
    published = ab.run_task(task, "--agent", "reference").record
    (tmp_path / "tasks" / "scenario.yaml").write_text("weights: {minimal: 1.0, trace: 0.0, maintainability: 0.0}\n")
    done = ab.run_task(task, "--agent", "reference")
    own = done.record
    # One of four files is changed: d is 1/4.
    minimal = math.exp(-2.0 / 4)
    assert own["score"] == pytest.approx(minimal, abs=1e-6)
    assert published["score"] == pytest.approx((0.4 * minimal + 0.2) / 0.6, abs=1e-6)
    assert own["rubric"].startswith("rubric@sha256:")
    assert own["rubric"] != published["rubric"]
    # Every attempt has a decomposed score and components, passed or not.
    failed = ab.run_task(task, "--agent", "noop").record
    assert (own["decomposed_score"], failed["decomposed_score"], failed["score"]) == (1.0, 0.2, None)
    assert failed["components"]["validity"] == 1
    assert ab("verify", done.json["run_dir"]).code == 0


@pytest.mark.req("G-10", "C-15")
def test_scorer_file_missing_after_setup_is_invalid(tmp_path: Path, ab: Ab) -> None:
    for name, path in (("made", "made.txt"), ("gone", "gone.txt")):
        more = f"""
        setup: {{commands: ["touch made.txt"]}}
        scorers: [{{name: guard, type: baseline_unmodified, paths: [{path}]}}]
        """
        make_task(tmp_path / "tasks" / "tiny" / name, task_id=name, more=more)
    done = ab("validate-tasks", "--suite", "tiny", "--tasks-dir", tmp_path / "tasks", "--json")
    validated = {task["task_id"]: (task["valid"], task["why"]) for task in done.json["tasks"]}
    assert validated["made"][0] is True
    assert validated["gone"][0] is False
    assert "scorers[0].paths[0]: gone.txt is not a file of the workspace" in validated["gone"][1]
