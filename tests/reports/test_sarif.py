"""The SARIF log: what it says of each attempt, and that hostile names stay data. Microsoft's reader: tests/exchange/test_third_party.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.ci import command
from agentbench.reports.sarif import MAX_TEXT, sarif_log
from agentbench.reports.sources import Run
from tests.reports.test_ci_comment import HOSTILE, demo, partial, with_finals

pytestmark = [pytest.mark.component]
__all__ = ["demo", "partial"]


def test_log_has_a_result_for_each_attempt_that_did_not_pass(demo: Path) -> None:
    options = ["annotations", str(demo / "demo-partial"), "--format", "sarif", "--tasks-dir", "bench/tasks"]
    (run,) = json.loads(CliRunner().invoke(command, options).stdout)["runs"]
    assert [result["level"] for result in run["results"]] == ["error"] * 3
    first = run["results"][0]
    assert first["message"]["text"] == "partial, repeat 1: FAIL TESTS_FAILED: 7 of 67 required tests"
    place = first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "bench/tasks/demo/duration-compound/task.yaml"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["TESTS_FAILED"]
    assert run["automationDetails"]["id"].startswith("agentbench/demo/")


def test_fingerprint_is_that_of_the_same_task_in_another_run(partial: Run) -> None:
    changes: list[dict[str, object]] = [
        {},
        {"attempt_id": "other", "run_id": "other"},
        {"task_id": "another"},
        {"repeat": 2},
        {"variant": "other"},
    ]
    log = json.loads(json.dumps(sarif_log(with_finals(partial, changes), "tasks")))
    prints = [result["partialFingerprints"]["primaryLocationLineHash"] for result in log["runs"][0]["results"]]
    assert len(set(prints)) == 4


def test_hostile_names_are_escaped_and_bounded(partial: Run) -> None:
    run = with_finals(partial, [{"task_id": f"../{HOSTILE}\u202e", "variant": "v\x1b[31m" * 1000}])
    text = json.dumps(sarif_log(run, "tasks"))
    (result,) = json.loads(text)["runs"][0]["results"]
    assert len(result["message"]["text"]) <= MAX_TEXT
    assert result["message"]["text"].isprintable()
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert not set(uri) & set(' <>[]|`"\n\u202e')


def test_every_result_and_rule_has_what_code_scanning_requires(demo: Path) -> None:
    """Also the result of a run without seals, which names no task."""
    run = demo / "unsealed"
    shutil.copytree(demo / "demo-partial", run)
    for log in run.glob("*.jsonl"):
        if log.name != "attempts.jsonl":
            log.unlink()
    (log,) = json.loads(CliRunner().invoke(command, ["annotations", str(run), "--format", "sarif"]).stdout)["runs"]
    rules = {rule["id"]: rule for rule in log["tool"]["driver"]["rules"]}
    assert set(rules) == {"RECORDS_ALTERED", "TESTS_FAILED"}
    assert all(rule[key]["text"] for rule in rules.values() for key in ("shortDescription", "fullDescription", "help"))
    assert len({result["partialFingerprints"]["primaryLocationLineHash"] for result in log["results"]}) == 4
    places = [result["locations"][0]["physicalLocation"] for result in log["results"]]
    assert all(place["artifactLocation"]["uri"].endswith("/task.yaml") for place in places)
    assert {len(place["region"]) for place in places} == {4}
