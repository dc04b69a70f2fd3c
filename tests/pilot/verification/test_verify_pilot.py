"""`ab verify` recomputes a pilot: registration, plan, order of attempts, decisions and removals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.sign import command as sign_command
from agentbench.cli.verify import command as verify_command
from agentbench.core.canonical import canonical, sha256_hex
from agentbench.pilot.chained_log import ChainedLog
from agentbench.pilot.lifecycle.freeze import amend_pilot
from agentbench.pilot.registration.signature import sign_registration
from agentbench.pilot.verification.result import PilotVerification
from agentbench.pilot.verification.verify_pilot import verify_pilot
from agentbench.record.recompute import recompute
from agentbench.signing.keys import create_key, load_signing_key
from agentbench.signing.run_signature import sign_run
from tests.execution.conftest import Ab
from tests.pilot.studies import read_jsonl, rewrite

pytestmark = pytest.mark.end_to_end


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


@pytest.mark.req("L-01")
def test_attempts_in_another_order_are_found(study: Path) -> None:
    """Two attempts of one method exchange the times in their ids, everything else stays as it was."""
    run = max(study.glob("runs/*"))
    first, second = (record["attempt_id"] for record in read_jsonl(run / "attempts.jsonl")[:2])
    for path in (run / "attempts.jsonl", run / "events.jsonl"):
        text = path.read_text().replace(first, "@").replace(second, first[:10] + second[10:])
        path.write_text(text.replace("@", second[:10] + first[10:]))
    reordered = [problem.message for problem in verified(study).problems if problem.kind == "reordered"]
    assert any("was launched where the plan has" in message for message in reordered)


@pytest.mark.req("L-01", "L-04")
def test_attempts_after_a_stop_are_found(study: Path) -> None:
    def stop(entries: list[dict[str, Any]]) -> None:
        entries[-1] = {**entries[-1], "kind": "stop", "rule": "safety", "criteria": [], "met": None, "launched": 20}

    rewrite(study / "decisions.jsonl", stop)
    after = [
        problem for problem in verified(study).problems if problem.message == "it began after the pilot was stopped"
    ]
    assert len(after) == 12


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


def test_signatures_of_registration_and_runs_are_checked(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv("AB_TRUST", raising=False)
    create_key("ada", None, tmp_path / "keys")
    ada = load_signing_key("ada", tmp_path / "keys")

    def verify(*options: str) -> Result:
        return CliRunner().invoke(verify_command, [str(study), *options])

    unsigned = verify("--signed-by", "ada")
    assert unsigned.exit_code == 1
    assert unsigned.output.count("signature.dsse.json: the run is not signed") == len(
        list((study / "runs").glob("*__*"))
    )
    done = CliRunner().invoke(sign_command, [str(study), "--key", "ada"])
    assert (done.exit_code, f"Signed decisions and removals of {study}" in done.output) == (0, True), done.output
    assert "registration 1 is not signed" in verify("--signed-by", "ada").output.splitlines()[0]
    sign_registration(study / "registrations" / "1", ada)
    signed = verify("--signed-by", "ada")
    assert signed.exit_code == 0, signed.output
    assert signed.output.splitlines()[1:3] == [
        "  registration signed by ada",
        "  decisions and removals signed by ada",
    ]
    assert signed.output.splitlines()[3].endswith("runs are signed by ada")
    assert "not checked; check them with --signed-by KEY" in verify().output
    first, second = sorted((study / "runs").glob("*__*"))[:2]
    (first / "signature.dsse.json").write_bytes((second / "signature.dsse.json").read_bytes())
    for altered in (verify(), verify("--signed-by", "ada")):
        assert altered.exit_code == 1
        assert "differs from what was signed" in altered.output
    (first / "signature.dsse.json").unlink()
    (tmp_path / "other.json").write_text("{}")
    sign_run(first, ada, tmp_path / "other.json")
    assert "names a registration:other.json that is not one of this pilot" in verify("--signed-by", "ada").output
    assert verify("--witness", str(tmp_path)).exit_code == 2
