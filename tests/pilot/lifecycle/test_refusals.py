"""Refusals: changed input exits with 2, a criterion that does not hold with 1, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab, Ran
from tests.pilot.studies import NAMES, PILOT, UNSAFE, changed, make_pilot, read_jsonl, records, write_pilot

pytestmark = pytest.mark.end_to_end


def prepared(ab: Ab, folder: Path, changes: dict[str, Any] | None = None, **more: Any) -> Path:
    """Create a pilot, plan it and freeze it."""
    make_pilot(folder, changes, **more)
    for command in ("plan", "freeze"):
        done = ab("pilot", command, folder)
        assert done.code == 0, done.stderr
    return folder


def refused(done: Ran, code: int, *messages: str) -> None:
    assert done.code == code, (done.stdout, done.stderr)
    for message in messages:
        assert message in done.stderr + done.stdout


@pytest.mark.req("L-01")
def test_nothing_runs_before_the_pilot_is_frozen(ab: Ab, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study")
    refused(ab("pilot", "run", folder), 2, "registration.json is missing", "nothing runs before that")
    refused(ab("pilot", "freeze", folder), 2, "plan.csv is missing", "ab pilot plan")
    assert ab("pilot", "status", folder).stdout.startswith("DRAFT: ")
    refused(ab("verify", folder), 2, "is not frozen: there is nothing to verify")
    assert not (folder / "runs").exists()


@pytest.mark.req("L-02")
def test_unbalanced_plan_cannot_be_frozen(ab: Ab, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study")
    assert ab("pilot", "plan", folder).code == 0
    lines = (folder / "plan.csv").read_text().splitlines(keepends=True)
    (folder / "plan.csv").write_text("".join(lines[:-1]))
    refused(ab("pilot", "freeze", folder), 2, "unbalanced: ", "repeat 2 of stage full is missing")
    assert not (folder / "registration.json").exists()


@pytest.mark.parametrize(
    "changes,message",
    [
        (changed(budgets={"total": 1.0}), "pilot.yaml:24: budgets.total: 1 is less than one attempt may cost"),
        (
            {"suites": [{"name": "tiny", "tasks_dir": "tasks", "tasks": ["one", "two", "three"]}]},
            "pilot.yaml:9: strata: stratum kind=feature has one task",
        ),
        (
            changed(stages={"full": {"repeats": 1}}),
            "pilot.yaml:22: stages.full.repeats: stage full has no attempts",
        ),
        (changed(budgets={"run": 2.0}), "task.yaml: budget.usd: 5 is more than one attempt may cost (budgets.run: 2)"),
        ({"methods": [{"name": "people", "patches": "patches"}]}, "unbalanced: method people has no patch for four"),
        ({"methods": [{"variant": "nobody"}]}, "variant 'nobody' not found"),
    ],
)
def test_design_that_cannot_be_used_is_not_planned(
    ab: Ab, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = make_pilot(tmp_path / "study", changes)
    refused(ab("pilot", "plan", folder), 2, message)
    assert not (folder / "plan.csv").exists()


def test_status_of_a_plan_that_no_longer_fits_asks_for_a_new_one(ab: Ab, tmp_path: Path) -> None:
    folder = make_pilot(tmp_path / "study")
    planned = ab("pilot", "plan", folder).stdout
    assert "Stage full cannot start" not in planned
    assert ab("pilot", "status", folder).stdout.startswith(f"PLANNED: next: `ab pilot freeze {folder}`")
    write_pilot(folder, {**PILOT, "methods": PILOT["methods"][1:]})
    status = ab("pilot", "status", folder).stdout
    assert status.startswith(f"PLANNED: next: `ab pilot plan {folder}` again: unbalanced: method ")


def test_underpowered_plan_says_that_the_full_stage_cannot_start(ab: Ab, tmp_path: Path) -> None:
    weak = {"rates": [0.4], "effect": 0.2, "correlations": [0.5]}
    planned = ab("pilot", "plan", make_pilot(tmp_path / "study", changed(power=weak))).stdout
    assert planned.splitlines()[1].startswith("UNDERPOWERED: ")
    assert "Stage full cannot start with this plan" in planned


@pytest.mark.req("L-01")
def test_changed_plan_task_or_method_is_refused_with_a_list(ab: Ab, tmp_path: Path) -> None:
    folder = prepared(ab, tmp_path / "study")
    plan = folder / "plan.csv"
    text = plan.read_text()
    plan.write_text(text.replace(",lazy,", ",good,", 1))
    task = folder / "tasks" / "tiny" / "two" / "task.yaml"
    task.write_text(task.read_text().replace("must say 42", "should say 42"))
    script = folder / "scripts" / "one.yaml"
    script.write_text("steps: []\n")
    refused(
        ab("pilot", "run", folder),
        2,
        "differs from its registration",
        "plan.csv: changed since it was frozen",
        "task two: task_digest changed",
        "method lazy: digest changed",
    )
    refused(ab("pilot", "plan", folder), 2, "is frozen; its plan cannot be written again")
    refused(ab("pilot", "freeze", folder), 2, "is frozen already", "--amend --reason")
    assert not (folder / "runs").exists()


@pytest.mark.req("L-01")
def test_edited_registration_is_refused(ab: Ab, study: Path) -> None:
    path = study / "registration.json"
    before = path.read_bytes()
    path.write_text(path.read_text().replace('"seed": 20260307', '"seed": 1337'))
    for command in ("run", "status", "report"):
        refused(ab("pilot", command, study), 2, "registration.json was edited", "registrations/, which has a copy")
    refused(ab("verify", study), 1, "ALTERED changed: ")
    shutil.copy(study / "registrations" / "1" / "registration.json", path)
    assert path.read_bytes() == before
    assert ab("verify", study).code == 0


@pytest.mark.req("L-01")
@pytest.mark.parametrize(
    "name,before,after",
    [("pilot.yaml", "Does good solve", "Does lazy solve"), ("plan.csv", ",lazy,", ",good,")],
)
def test_edited_file_is_not_reported_as_registered(ab: Ab, study: Path, name: str, before: str, after: str) -> None:
    path = study / name
    path.write_text(path.read_text().replace(before, after))
    fix = f"restore it from {study}/registrations/1, or register the change with `ab pilot freeze --amend"
    for command in (("status",), ("report",), ("report", "--json")):
        message = f"differs from its registration: {name} changed since it was frozen"
        refused(ab("pilot", command[0], study, *command[1:]), 2, message, fix)
    refused(ab("verify", study), 1, f"ALTERED changed: {name}: differs from the registration")


@pytest.mark.req("L-01")
def test_amendment_cannot_drop_attempts(ab: Ab, study: Path) -> None:
    """Also if the plan in the folder lacks them already."""
    write_pilot(study, {**PILOT, "methods": PILOT["methods"][1:]})
    plan = study / "plan.csv"
    lines = plan.read_text().splitlines(keepends=True)
    plan.write_text("".join(line for line in lines if ",lazy," not in line))
    done = ab("pilot", "freeze", study, "--amend", "--reason", "fewer methods")
    lost = "lazy at two, repeat 2: not in stage full of the new plan"
    refused(done, 2, "an amendment must keep every attempt that was made", lost)
    assert not (study / "registrations" / "2").exists()


@pytest.mark.req("L-01")
def test_deleted_attempts_are_found(ab: Ab, study: Path) -> None:
    # A pilot with a stage left to run, so that `run` would continue it.
    decisions = study / "decisions.jsonl"
    decisions.write_text("".join(decisions.read_text().splitlines(keepends=True)[:-1]))
    run = next(path for path in sorted((study / "runs").iterdir()) if (path / "attempts.jsonl").read_text())
    attempts = run / "attempts.jsonl"
    text = attempts.read_text()
    attempts.write_text("".join(text.splitlines(keepends=True)[:-1]))
    refused(ab("pilot", "run", study), 2, "attempts are missing")
    refused(ab("verify", study), 1, "ALTERED", f"runs/{run.name}")
    attempts.write_text(text)
    kept = study / "kept"
    shutil.move(run, kept)
    refused(ab("pilot", "run", study), 2, f"runs/{run.name} is missing", "attempts cannot be removed")
    shutil.move(kept, run)
    # The last decision was the only one lost, and it is made again.
    assert ab("pilot", "run", study).code == 0
    assert ab("verify", study).code == 0


@pytest.mark.req("L-01")
def test_passing_task_is_not_removed(ab: Ab, study: Path) -> None:
    for cause in ("flaky", "invalid_oracle", "setup"):
        done = ab("pilot", "remove", study, "--task", "one", "--cause", cause, "--reason", "hard", "--by", "me")
        refused(done, 1, f"no record shows that task one is invalid ({cause}): 6 of 8 attempts at it passed")
    refused(
        ab("pilot", "remove", study, "--task", "onw", "--cause", "flaky", "--reason", "hard", "--by", "me"),
        2,
        "task onw is not registered (did you mean `one`?)",
    )
    assert (study / "removals.jsonl").read_text() == ""


@pytest.mark.req("L-01", "L-03", "L-06")
def test_flaky_task_is_removed_with_evidence_and_not_replaced(ab: Ab, tmp_path: Path) -> None:
    # Each task is screened 32 times, so there are only two.
    suites = [{**PILOT["suites"][0], "tasks": ["four", "one"]}]
    changes = {**changed(flakes={"screen_repeats": 16}), "suites": suites, "seed": 7, "strata": []}
    folder = make_pilot(tmp_path / "study", changes)
    task = folder / "tasks" / "tiny" / "four" / "task.yaml"
    coin = "test $(od -An -N1 -tu1 /dev/urandom) -lt 128"
    task.write_text(task.read_text().replace("grep -qx 42 answer.txt", f"grep -qx 42 answer.txt && {coin}"))
    for command in ("plan", "freeze"):
        assert ab("pilot", command, folder).code == 0
    refused(ab("pilot", "run", folder), 1, "Stage feasibility MAY NOT START", "NOT MET flake_rate: 1 of 2 tasks")
    done = ab(
        *(
            "pilot",
            "remove",
            folder,
            "--task",
            "four",
            "--cause",
            "flaky",
            "--reason",
            "tosses a coin",
            "--by",
            "A. Reviewer",
        )
    )
    assert done.code == 0, done.stderr
    assert done.stdout.startswith("REMOVED four: flaky: flake screen: differing outcomes of answer")
    ran = ab("pilot", "run", folder)
    assert ran.code == 0, ran.stdout + ran.stderr
    assert {record["task_id"] for record in records(folder)} == {"one"}
    (removal,) = read_jsonl(folder / "removals.jsonl")
    assert (removal["task_id"], removal["by"]) == ("four", "A. Reviewer")
    # Deviations and removals are in every format.
    for form in ("md", "json", "csv"):
        report = ab("pilot", "report", folder, "--format", form)
        assert "seed 7 instead of 20260307" in report.stdout
        assert "four" in report.stdout
    ab("pilot", "report", folder, "--format", "html")
    assert "seed 7 instead of 20260307" in (folder / "report" / "index.html").read_text()
    assert "seed 7" in (folder / "audit.csv").read_text()
    assert ab("verify", folder).code == 0
    # The plan still contains the task: it is not replaced.
    (folder / "removals.jsonl").unlink()
    refused(ab("verify", folder), 1, "four was removed according to this decision")


@pytest.mark.req("L-03", "A-04")
def test_underpowered_full_stage_is_refused_with_the_counts_that_would_do(ab: Ab, tmp_path: Path) -> None:
    folder = prepared(ab, tmp_path / "study", changed(power={"rates": [0.4], "effect": 0.2, "correlations": [0.5]}))
    refused(
        ab("pilot", "run", folder, "--stage", "full"), 1, "stage full cannot start: stage feasibility is not complete"
    )
    for stage in ("feasibility", "limited"):
        done = ab("pilot", "run", folder, "--workers", "2")
        assert done.code == 0, (stage, done.stdout, done.stderr)
    before = list(records(folder))
    planned = ab("pilot", "status", folder).stdout
    ran = ab("pilot", "run", folder)
    refused(ran, 1, "Stage full MAY NOT START", "NOT MET power_supported", "would do")
    following = "stage full may not start (power_supported): edit pilot.yaml and register it with `ab pilot freeze"
    report = ab("pilot", "report", folder).stdout
    for shown in (ran.stdout, planned, ab("pilot", "status", folder).stdout, report.splitlines()[0]):
        assert following in shown
        assert "ab pilot run" not in shown
    assert report.startswith("# BLOCKED: ")
    assert list(records(folder)) == before
    # Fewer assumptions are an amendment, which keeps the attempts and is reported.
    write_pilot(folder, PILOT)
    refused(ab("pilot", "run", folder), 2, "pilot.yaml: changed since it was frozen")
    amended = ab("pilot", "freeze", folder, "--amend", "--reason", "only a large effect matters", "--json")
    assert amended.json["number"] == 2
    assert amended.json["amends"]["reason"] == "only a large effect matters"
    done = ab("pilot", "run", folder, "--workers", "2", "--json")
    assert done.json["phase"] == "complete", done.stdout
    assert "only a large effect matters" in done.json["deviations"][0]
    assert ab("verify", folder, "--json").json["registrations"] == 2
    assert [record for record in records(folder) if record in before] == before


@pytest.mark.req("L-04")
def test_systematic_safety_issue_stops_the_pilot(ab: Ab, tmp_path: Path) -> None:
    unsafe = {name: [UNSAFE] for name in NAMES}
    folder = prepared(ab, tmp_path / "study", {"strata": []}, steps=unsafe)
    # One task of the only stratum: one violation, which ends the pilot before the limited stage.
    assert ab("pilot", "run", folder).code == 0
    refused(ab("pilot", "run", folder), 1, "Stage limited MAY NOT START", "NOT MET no_boundary_violation: 1 of 4")
    other = prepared(
        ab,
        tmp_path / "other",
        {"strata": [], **changed(stages={"feasibility": {"tasks_per_stratum": 3}})},
        steps=unsafe,
    )
    stopped = ab("pilot", "run", other)
    refused(stopped, 1, "STOPPED in stage feasibility by rule safety: 2 attempts of lazy violated a boundary (limit 2)")
    lazy = [record for record in records(other) if record["variant"] == "lazy"]
    assert {record["termination"]["code"] for record in lazy} == {"safety"}
    (stop,) = [decision for decision in read_jsonl(other / "decisions.jsonl") if decision["kind"] == "stop"]
    assert sorted(stop["evidence"]) == sorted(record["attempt_id"] for record in lazy)
    refused(ab("pilot", "run", other), 1, "the pilot was stopped in stage feasibility")
    assert ab("verify", other).code == 0
    assert json.loads(ab("pilot", "report", other, "--json").stdout)["status"]["phase"] == "stopped"


@pytest.mark.req("L-04")
def test_total_budget_stops_the_pilot(ab: Ab, tmp_path: Path) -> None:
    prices = "action_type,unit,unit_price,notes\ntool_call,call,3.0,\nllm_request,token,0.0,\n"
    folder = make_pilot(
        tmp_path / "study", {**changed(budgets={"total": 10.0, "task": 10.0, "run": 5.0}), "prices": "prices.csv"}
    )
    (folder / "prices.csv").write_text(prices)
    for command in ("plan", "freeze"):
        done = ab("pilot", command, folder)
        assert done.code == 0, done.stderr
    codes = [ab("pilot", "run", folder).code]
    while codes[-1] == 0 and len(codes) < 3:
        codes.append(ab("pilot", "run", folder).code)
    assert codes[-1] == 1
    status = ab("pilot", "status", folder, "--json").json
    assert status["phase"] == "stopped"
    assert "the total budget is spent" in status["next"]
    assert status["spending"]["spent"] >= 10.0
    assert len(list(records(folder))) < 32
    assert ab("verify", folder).code == 0
