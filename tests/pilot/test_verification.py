"""`ab verify` recomputes a pilot: registration, plan, order of attempts, decisions and removals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.pilot.folder import ChainedLog
from agentbench.pilot.freeze import amend_pilot
from agentbench.pilot.verification import PilotVerification, verify_pilot
from agentbench.record.recompute import recompute
from tests.pilot.studies import read_jsonl
from tests.run.conftest import Ab

pytestmark = pytest.mark.end_to_end


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the entries of a log and chain them anew, as a careful forger would."""
    entries = read_jsonl(path)
    change(entries)
    path.unlink()
    for entry in entries:
        ChainedLog(path).append({name: value for name, value in entry.items() if name != "previous"})


def verified(study: Path) -> PilotVerification:
    return verify_pilot(study, recompute)


@pytest.mark.req("L-03", "L-04")
def test_forged_decision_is_found(study: Path) -> None:
    def claim_failure(entries: list[dict[str, Any]]) -> None:
        entries[2]["criteria"][0]["met"] = entries[2]["met"] = False

    rewrite(study / "decisions.jsonl", claim_failure)
    problems = [str(problem) for problem in verified(study).problems]
    assert (
        "inconsistent: decisions.jsonl:3: exit of stage feasibility: records_complete differs when computed again"
        in problems
    )


@pytest.mark.req("L-04")
def test_invented_stop_is_found(study: Path) -> None:
    def stop(entries: list[dict[str, Any]]) -> None:
        entries[-1] = {**entries[-1], "kind": "stop", "rule": "safety", "why": "invented", "criteria": [], "met": None}

    rewrite(study / "decisions.jsonl", stop)
    problems = [str(problem) for problem in verified(study).problems]
    assert "inconsistent: decisions.jsonl:9: no stopping rule held" in problems


@pytest.mark.req("L-03")
def test_stage_without_entry_is_found(study: Path) -> None:
    def drop(entries: list[dict[str, Any]]) -> None:
        del entries[3]

    rewrite(study / "decisions.jsonl", drop)
    problems = [str(problem) for problem in verified(study).problems]
    assert "inconsistent: decisions.jsonl:4: stage limited started without meeting its entry criteria" in problems


@pytest.mark.req("L-01")
def test_unsupported_removal_is_found(study: Path) -> None:
    (seen,) = [entry["seen"] for entry in read_jsonl(study / "decisions.jsonl")[-1:]]
    registration = json.loads((study / "registration.json").read_text())["registration_id"]
    ChainedLog(study / "removals.jsonl").append(
        {
            "task_id": "one",
            "cause": "flaky",
            "reason": "hard",
            "by": "me",
            "evidence": "none",
            "registration_id": registration,
            "seen": seen,
            "at": "2026-01-01T00:00:00+00:00",
        }
    )
    (problem,) = verified(study).problems
    assert problem.place == "removals.jsonl:1"
    assert "shows that task one is invalid (flaky)" in problem.message


@pytest.mark.req("L-01", "A-04", "L-07")
@pytest.mark.parametrize("name", ["plan.csv", "power.json", "cost_projection.csv"])
def test_file_that_does_not_follow_from_the_pilot_is_found(study: Path, name: str) -> None:
    """Also if the forger registers the forged file."""
    path = study / name
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    forged = "".join([lines[0], lines[2], lines[1], *lines[3:]])
    registration = json.loads((study / "registration.json").read_text())
    registration["files"][name] = sha256_hex(forged.encode())
    registration.pop("registration_id")
    registration["registration_id"] = "sha256:" + sha256_hex(canonical(registration))
    for folder in (study, study / "registrations" / "1"):
        (folder / name).write_text(forged)
        (folder / "registration.json").write_text(json.dumps(registration))
    problems = [str(problem) for problem in verified(study).problems]
    assert f"changed: registrations/1/{name}: does not follow from pilot.yaml and the registered tasks" in problems


@pytest.mark.req("L-01")
@pytest.mark.parametrize("number", [1, 2], ids=["earlier registration", "current registration"])
@pytest.mark.parametrize("garbled", [None, b"order\nx\n"], ids=["removed", "garbled"])
def test_damaged_copy_of_a_plan_is_found(ab: Ab, study: Path, number: int, garbled: bytes | None) -> None:
    amend_pilot(study, "a second registration")
    plan = study / "registrations" / str(number) / "plan.csv"
    plan.unlink()
    if garbled is not None:
        plan.write_bytes(garbled)
    done = ab("verify", study)
    assert (done.code, f"registrations/{number}/plan.csv" in done.stdout) == (1, True), done


def renamed_attempts(study: Path, rename: Callable[[int, str], str]) -> list[str]:
    """Give every attempt another id, by its place in the plan, and return what is found about the order.

    The beginning of an id is the time when the attempt began. The decisions claim that there was one worker, since
    several may overtake each other.
    """

    def one_worker(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if entry["kind"] == "opened":
                entry["workers"] = 1

    rewrite(study / "decisions.jsonl", one_worker)
    plan = [line.split(",") for line in (study / "plan.csv").read_text().splitlines()[1:]]
    orders = {(task, method, int(repeat)): int(order) for order, _, task, _, method, repeat in plan}
    for path in study.glob("runs/*/attempts.jsonl"):
        text = path.read_text()
        for record in read_jsonl(path):
            order = orders[record["task_id"], record["variant"], record["repeat"]]
            text = text.replace(record["attempt_id"], rename(order, record["attempt_id"]))
        path.write_text(text)
    return [problem.message for problem in verified(study).problems if problem.kind == "reordered"]


@pytest.mark.req("L-01")
def test_attempts_in_another_order_are_found(study: Path) -> None:
    reverse = renamed_attempts(study, lambda order, attempt_id: f"01KB{99 - order:06}{attempt_id[10:]}")
    assert len(reverse) == 1
    assert reverse[0].endswith("began after 1 attempts that the plan has later")


@pytest.mark.req("L-01")
def test_attempts_that_began_together_are_in_order(study: Path) -> None:
    assert renamed_attempts(study, lambda _, attempt_id: f"01KB000000{attempt_id[10:]}") == []


@pytest.mark.req("L-01")
def test_run_that_no_stage_made_is_found(study: Path) -> None:
    import shutil

    run = next(path for path in sorted((study / "runs").iterdir()))
    shutil.copytree(run, study / "runs" / "another")
    (problem,) = verified(study).problems
    assert (problem.kind, problem.place) == ("appended", "runs/another")


@pytest.mark.req("L-03")
def test_changed_flake_screen_is_found(study: Path) -> None:
    path = study / "flake_screen.json"
    path.write_text(path.read_text().replace('"baseline": "fail"', '"baseline": "pass"', 1))
    problems = [str(problem) for problem in verified(study).problems]
    assert "inconsistent: decisions.jsonl:1: the flake screen was changed since this decision" in problems
