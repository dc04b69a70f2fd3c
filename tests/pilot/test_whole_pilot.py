"""A whole pilot through the command line: three stages, two methods, two baselines, a report, and its verification."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentbench.pilot.pilot_state import read_registered_state
from agentbench.pilot.report.tables import AUDIT_COLUMNS, rubric_columns
from tests.campaigns.sequential_recorded import recorded_pairs
from tests.execution.conftest import Ab
from tests.pilot.conftest import Finished, output
from tests.pilot.studies import read_jsonl, records

pytestmark = pytest.mark.end_to_end


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.req("L-01")
def test_every_step_of_a_pilot_succeeds(finished: Finished) -> None:
    codes = {name: command[0] for name, command in finished.commands.items()}
    assert set(codes.values()) == {0}, finished.commands
    assert output(finished, "verify") | {"pilot": ""} == {
        "pilot": "",
        "notes": [],
        "ok": True,
        "decision": "verified",
        "problems": [],
        "registrations": 1,
        "attempts": 32,
        "decisions": 9,
        "removals": 0,
        "verdicts": 32,
        "signatures": {"runs": 12, "signed": 0, "signers": [], "not_checked": 0, "registrations": [], "logs": None},
    }


@pytest.mark.req("L-01")
def test_registration_freezes_tasks_methods_and_files(finished: Finished) -> None:
    registration = json.loads((finished.folder / "registration.json").read_text())
    assert sorted(registration["files"]) == [
        "cost_inputs.json",
        "cost_projection.csv",
        "pilot.yaml",
        "plan.csv",
        "power.json",
    ]
    assert [task["task_id"] for task in registration["tasks"]] == ["four", "one", "three", "two"]
    recorded = {(record["task_id"], record["task_digest"]) for record in records(finished.folder)}
    assert recorded == {(task["task_id"], task["task_digest"]) for task in registration["tasks"]}
    assert registration["seed"] == 20260307
    assert {record["harness_version"] for record in records(finished.folder)} == {registration["harness_version"]}


@pytest.mark.req("L-01", "L-02")
def test_attempts_are_those_of_the_plan_equal_for_all_methods(finished: Finished) -> None:
    plan = rows(finished.folder / "plan.csv")
    assert list(plan[0]) == ["order", "stage", "task_id", "stratum", "method", "repeat"]
    made = Counter((record["task_id"], record["variant"], record["repeat"]) for record in records(finished.folder))
    assert made == Counter((row["task_id"], row["method"], int(row["repeat"])) for row in plan)
    assert Counter(row["method"] for row in plan) == dict.fromkeys(("lazy", "good", "noop", "reference"), 8)


@pytest.mark.req("L-03")
def test_stages_are_entered_and_left_by_criteria_with_evidence(finished: Finished) -> None:
    decisions = read_jsonl(finished.folder / "decisions.jsonl")
    assert [(decision["kind"], decision["stage"]) for decision in decisions] == [
        (kind, stage) for stage in ("feasibility", "limited", "full") for kind in ("entry", "opened", "exit")
    ]
    criteria = {
        (decision["kind"], decision["stage"]): [criterion["name"] for criterion in decision["criteria"]]
        for decision in decisions
        if decision["kind"] != "opened"
    }
    assert criteria == {
        ("entry", "feasibility"): ["checks_deterministic", "flake_rate", "caps_configured"],
        ("exit", "feasibility"): ["records_complete", "costs_recorded"],
        ("entry", "limited"): ["feasibility_complete", "no_boundary_violation", "flake_rate"],
        ("exit", "limited"): ["records_complete", "endpoint_computable", "subscores_computable", "within_budget"],
        ("entry", "full"): ["limited_complete", "power_supported", "budget_remaining"],
        ("exit", "full"): ["records_complete", "endpoint_computable", "within_budget"],
    }
    stages = {stage["name"]: stage for stage in output(finished, "status")["stages"]}
    assert {name: (stage["state"], stage["made"]) for name, stage in stages.items()} == {
        "feasibility": ("complete", 8),
        "limited": ("complete", 8),
        "full": ("complete", 16),
    }


@pytest.mark.req("L-05")
def test_audit_has_a_line_per_attempt(finished: Finished) -> None:
    audit = rows(finished.folder / "audit.csv")
    assert tuple(audit[0]) == AUDIT_COLUMNS
    assert [int(row["order"]) for row in audit] == list(range(1, 33))
    by_id = {record["attempt_id"]: record for record in records(finished.folder)}
    for row in audit:
        record = by_id[row["attempt_id"]]
        assert row["termination"] == record["termination"]["code"]
        assert int(row["tool_calls"]) == record["usage"]["tool_calls"]
        assert int(row["test_cycles"]) == record["usage"]["test_cycles"]
        assert int(row["prompt_tokens"]) == record["usage"]["prompt_tokens"]
        assert float(row["execution_sec"]) == pytest.approx(
            record["usage"]["tool_sec"] + record["usage"]["check_sec"], abs=1e-6
        )
        assert (row["acceptance"] == "pass") == (record["run_status"] == "success")


@pytest.mark.req("L-05")
def test_rubric_follows_the_published_template(finished: Finished) -> None:
    rubric = rows(finished.folder / "rubric.csv")
    assert tuple(rubric[0]) == rubric_columns()
    passed = {row["attempt_id"] for row in rubric if row["passes_checks"] == "pass" and row["score"]}
    assert passed == {record["attempt_id"] for record in records(finished.folder) if record["result"]["passed"]}


@pytest.mark.req("L-02")
def test_report_compares_methods_and_baselines(finished: Finished) -> None:
    report: dict[str, Any] = output(finished, "report")
    overall = {line["method"]: line for line in report["rates"] if line["stratum"] == "all strata"}
    assert {name: (line["passed"], line["attempts"]) for name, line in overall.items()} == {
        "lazy": (2, 8),
        "good": (8, 8),
        "noop": (0, 8),
        "reference": (8, 8),
    }
    assert overall["lazy"]["interval"]["method"] == "Wilson, clustered by task"
    assert {line["stratum"] for line in report["rates"]} == {"all strata", "kind=bugfix", "kind=feature"}
    (primary,) = [pair for pair in report["comparisons"] if pair["primary"]]
    assert (primary["a"], primary["b"], primary["comparison"]["difference"]) == ("lazy", "good", 0.75)
    assert len(report["comparisons"]) == 5
    assert {line["unit"] for line in report["costs"]} == {"abstract"}
    assert {(line["invalid"], line["check_errors"]) for line in report["rates"]} == {(0, 0)}
    assert (report["caps"]["total"], report["caps"]["task"], report["caps"]["run"]) == (100.0, 50.0, 5.0)
    assert {"name": "wall_sec", "value": "120 (environment.timeout_sec)", "tasks": 4} in report["caps"]["attempt"]


@pytest.mark.req("L-05", "L-06")
def test_csv_has_cost_quartiles_and_comparisons(ab: Ab, study: Path) -> None:
    done = ab("pilot", "report", study, "--format", "csv")
    assert done.code == 0, done.stderr
    rates = list(csv.DictReader(done.stdout.splitlines()))
    for row in rates:
        assert float(row["cost_low"]) <= float(row["cost_median"]) <= float(row["cost_high"])
        assert float(row["seconds_low"]) <= float(row["seconds_median"]) <= float(row["seconds_high"])
    comparisons = rows(study / "comparisons.csv")
    assert [(row["a"], row["b"], row["primary"]) for row in comparisons][:2] == [
        ("lazy", "good", "true"),
        ("noop", "lazy", "false"),
    ]
    assert (comparisons[0]["difference"], comparisons[0]["interval"]) == ("0.75", "Student's t over tasks")
    deviations = {row["deviations"] for row in (*rates, *comparisons, *rows(study / "audit.csv"))}
    assert deviations == {"4 tasks have no task.lock.json (write it with ab task lock)"}


@pytest.mark.req("L-07")
def test_cost_projection_is_labelled_as_a_model(finished: Finished) -> None:
    projection = rows(finished.folder / "cost_projection.csv")
    assert {row["basis"] for row in projection} == {"model"}
    assert sum(int(row["attempts"]) for row in projection) == 32
    assert json.loads((finished.folder / "cost_inputs.json").read_text())["basis"] == "model"
    assert "a model from cost_inputs.json, not spending" in (finished.folder / "cost_projection.svg").read_text()
    # Attempts of methods use 100,000 prompt and 10,000 completion tokens and 5 minutes, those of baselines no model.
    assert float(projection[-1]["cumulative_expected"]) == pytest.approx(16 * (0.3 + 0.15) + 32 * 5 / 60 * 0.5)


@pytest.mark.req("A-04")
def test_power_analysis_is_registered_before_the_first_attempt(finished: Finished) -> None:
    power = json.loads((finished.folder / "power.json").read_text())
    assert (power["tasks"], power["repeats"], power["seed"]) == (4, 2, 20260307)
    scenarios = [(scenario["rate"], scenario["intra_task_correlation"]) for scenario in power["scenarios"]]
    assert scenarios == [(0.05, 0.2), (0.05, 0.4)]
    assert all(scenario["minimum_detectable_effect"] <= 0.9 for scenario in power["scenarios"])
    assert power["monotonicity"] == {"passed": True, "problems": []}
    assert power["supported"] is True


@pytest.mark.req("L-06")
def test_report_pages_are_written(ab: Ab, study: Path) -> None:
    page = ab("pilot", "report", study, "--format", "html")
    assert page.code == 0, page.stderr
    text = (study / "report" / "index.html").read_text()
    shown = ("feasibility", "checks_deterministic", "Paired comparisons", "Decisions", "not spending", "Enforced caps")
    for word in (*shown, "Wilson, clustered by task", "quartiles"):
        assert word in text
    assert (study / "report" / "attempts" / "index.html").is_file()
    # The same page again replaces it.
    assert ab("pilot", "report", study, "--format", "html").code == 0
    assert ab("verify", study).code == 0


@pytest.mark.req("L-04")
def test_rules_applied_to_recorded_attempts_use_at_most_all_of_them(finished: Finished) -> None:
    pairs = list(recorded_pairs(read_registered_state(finished.folder)))
    assert len(pairs) == 6
    for pair in pairs:
        fixed = pair.decisions["fixed"]
        assert fixed is not None
        # Four tasks cannot decide anything at 0.05.
        assert (pair.blocks, fixed.blocks, fixed.outcome.value) == (8, 8, "inconclusive")
        assert all(decision is None or decision.blocks <= 8 for decision in pair.decisions.values())
