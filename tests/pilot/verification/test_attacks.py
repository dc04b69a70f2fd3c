"""Changes of a finished pilot by an attacker who knows its files. Without a signature `ab verify` finds what does not follow from the
rest; with one it finds every change, also if the attacker computes all digests again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.pilot.decisions.flakes import screen_digest
from agentbench.pilot.decisions.log_signature import SIGNATURE, sign_logs
from agentbench.pilot.registration.signature import sign_registration
from agentbench.pilot.report.results import make_report, write_tables
from agentbench.pilot.verification.verify_pilot import verify_pilot
from agentbench.record.recompute import recompute
from agentbench.signing.keys import create_key, load_signing_key
from agentbench.signing.trust import Trust, read_trust
from tests.pilot.studies import read_jsonl, rewrite

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("L-01")]


def problems(study: Path, trust: Trust | None = None) -> list[str]:
    result = verify_pilot(study, recompute, trust, signature_required=trust is not None)
    return [str(problem) for problem in result.problems]


def replace_text(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def register_again(study: Path, **changes: object) -> None:
    """Edit the registration and compute its id again, also where decisions name it."""
    file = study / "registration.json"
    before = json.loads(file.read_text())
    value = {**before, **changes}
    value.pop("registration_id")
    value["registration_id"] = "sha256:" + sha256_hex(canonical(value))
    for folder in (study, study / "registrations" / "1"):
        (folder / "registration.json").write_text(json.dumps(value))
    rewrite(
        study / "decisions.jsonl",
        lambda entries: [entry.update(registration_id=value["registration_id"]) for entry in entries],
    )


def first_run(study: Path) -> Path:
    return min(path for path in (study / "runs").iterdir() if path.is_dir())


def delete_last_record(study: Path) -> None:
    path = first_run(study) / "attempts.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def reorder_records(study: Path) -> None:
    path = max((study / "runs").glob("*/attempts.jsonl"))
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*others, first]))


def flip_verdict(study: Path) -> None:
    path = next(path for path in (study / "runs").glob("*/attempts.jsonl") if '"passed":false' in path.read_text())
    replace_text(path, '"passed":false', '"passed":true')


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "edited question": (lambda study: replace_text(study / "registration.json", "lazy?", "busy?"), "was edited"),
    "registration from another time": (
        lambda study: register_again(study, frozen_at="2026-01-01T00:00:00.000+00:00"),
        "its id does not follow from the registration and the plan",
    ),
    "registration with another harness": (
        lambda study: register_again(study, harness_version="9.9.9"),
        "harness 0.1.0",
    ),
    "registration with another price table": (
        lambda study: register_again(study, prices="free"),
        "is not the registered one",
    ),
    "edited plan": (lambda study: replace_text(study / "plan.csv", "feasibility", "limited"), "plan.csv"),
    "edited figure": (
        lambda study: replace_text(study / "cost_projection.svg", "a model", "spent"),
        "cost_projection.svg",
    ),
    "deleted attempt": (delete_last_record, "attempts.jsonl"),
    "deleted folder of an attempt": (
        lambda study: shutil.rmtree(next((first_run(study) / "tasks").glob("*/*"))),
        "missing",
    ),
    "deleted run": (lambda study: shutil.rmtree(first_run(study)), "is missing: a stage of this pilot"),
    "reordered attempts": (reorder_records, "attempts.jsonl"),
    "edited verdict": (flip_verdict, "attempts.jsonl"),
    "run of another stage": (
        lambda study: replace_text(first_run(study) / "run.json", '"stage":', '"stag3":'),
        "run.json",
    ),
    "reworded evidence": (
        lambda study: rewrite(
            study / "decisions.jsonl",
            lambda entries: entries[0]["criteria"][0].update(evidence="4 of 4 tasks are fine"),
        ),
        "decisions.jsonl:1: entry of stage feasibility: the evidence differs when computed again",
    ),
    "decision of another registration": (
        lambda study: rewrite(
            study / "decisions.jsonl", lambda entries: entries[-1].update(registration_id="sha256:0")
        ),
        "decisions.jsonl:9: unknown registration sha256:0",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_change_is_found(study: Path, name: str) -> None:
    attack, expected = ATTACKS[name]
    assert problems(study) == []
    attack(study)
    found = problems(study)
    assert any(expected in problem for problem in found), found


@pytest.mark.req("L-05")
@pytest.mark.parametrize("name", ["audit.csv", "rubric.csv"])
def test_edited_table_is_found(study: Path, name: str) -> None:
    write_tables(make_report(study))
    assert problems(study) == []
    replace_text(study / name, ",good,", ",lazy,")
    (problem,) = problems(study)
    assert (problem.startswith(f"changed: {name}:"), problem.endswith("differs from the attempt: method")) == (
        True,
        True,
    )
    write_tables(make_report(study))
    line = (study / name).read_text().splitlines()[1]
    attempt = next(record["attempt_id"] for record in read_jsonl(first_run(study) / "attempts.jsonl"))
    with (study / name).open("a") as file:
        file.write(line.replace(line.split(",")[6], attempt[:-1] + "0") + "\n")
    (problem,) = problems(study)
    assert "no attempt of this pilot has this line" in problem


@pytest.mark.req("L-05")
def test_table_that_lacks_attempts_is_noted(study: Path) -> None:
    path = study / "audit.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    result = verify_pilot(study, recompute)
    assert (result.problems, result.notes) == (
        [],
        ["audit.csv lacks 2 attempts; write it again with `ab pilot report`"],
    )


# --- with a signature, everything computed again ------------------------------------------------------------------------


def forge_flaky_task(study: Path) -> None:
    """Claim in the flake screen that a task is flaky, and remove it afterwards with this evidence."""
    screen = json.loads((study / "flake_screen.json").read_text())
    task = next(task for task in screen["tasks"] if task["task_id"] == "three")
    task.update(flaky=["tests"], valid=False)
    (study / "flake_screen.json").write_text(json.dumps(screen))
    digest = screen_digest(study)

    def follow(entries: list[dict[str, Any]]) -> None:
        for entry in entries:
            if "screen" in entry:
                entry["screen"] = digest

    rewrite(study / "decisions.jsonl", follow)


def log_removal(study: Path, **changes: object) -> None:
    decision = read_jsonl(study / "decisions.jsonl")[-1]
    removal = {
        "task_id": "three",
        "cause": "flaky",
        "reason": "depends on the clock",
        "by": "me",
        "evidence": "flake screen: differing outcomes of tests",
        "registration_id": decision["registration_id"],
        "seen": decision["seen"],
        "at": decision["at"],
    }
    rewrite(study / "removals.jsonl", lambda entries: entries.append({**removal, **changes}))


FORGERIES: dict[str, Callable[[Path], object]] = {
    "invented flakes": forge_flaky_task,
    "added removal": log_removal,
    "time of a decision": lambda study: rewrite(
        study / "decisions.jsonl", lambda entries: entries[-1].update(at="2026-01-01T00:00:00.000+00:00")
    ),
    "number of workers": lambda study: rewrite(
        study / "decisions.jsonl", lambda entries: entries[1].update(workers=64)
    ),
    "dropped decision": lambda study: rewrite(study / "decisions.jsonl", lambda entries: entries.pop()),
    "no signature": lambda study: (study / SIGNATURE).unlink(),
    "garbled signature": lambda study: (study / SIGNATURE).write_text("{}"),
    "registration": lambda study: register_again(study, question="Is lazy better?"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forgery_of_a_signed_pilot_is_found(study: Path, tmp_path: Path, name: str) -> None:
    create_key("ada", None, tmp_path / "keys")
    ada, trust = load_signing_key("ada", tmp_path / "keys"), read_trust("ada", tmp_path / "keys")
    sign_registration(study / "registrations" / "1", ada)
    sign_logs(study, json.loads((study / "registration.json").read_text())["registration_id"], ada)
    assert problems(study, trust) == []
    FORGERIES[name](study)
    found = problems(study, trust)
    assert any("sign" in problem for problem in found), found


def test_log_that_grew_after_it_was_signed_is_signed_again(study: Path, tmp_path: Path) -> None:
    create_key("ada", None, tmp_path / "keys")
    ada, trust = load_signing_key("ada", tmp_path / "keys"), read_trust("ada", tmp_path / "keys")
    registration = json.loads((study / "registration.json").read_text())["registration_id"]
    sign_registration(study / "registrations" / "1", ada)
    entries = read_jsonl(study / "decisions.jsonl")
    rewrite(study / "decisions.jsonl", lambda entries: entries.pop())
    sign_logs(study, registration, ada)
    rewrite(study / "decisions.jsonl", lambda kept: kept.append(entries[-1]))
    assert problems(study) == []
    (problem,) = problems(study, trust)
    assert "lines were added to decisions.jsonl after they were signed" in problem
    sign_logs(study, registration, ada)
    assert problems(study, trust) == []
