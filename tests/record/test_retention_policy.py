"""A policy decides by the age of a run, and `ab retain --policy` applies it to many runs with logged approvals."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.retain import command
from agentbench.core.errors import ContractError, InputError
from agentbench.record.audit import verify_run
from agentbench.record.retention_policy import RetentionPolicy, RetentionRule, decide_retention, read_policy
from agentbench.signing.keys import create_key, load_signing_key
from agentbench.signing.run_signature import sign_run, verify_signature
from agentbench.signing.trust import read_trust
from agentbench.trace.events import RunReduced
from agentbench.trace.log import read_events
from tests.record.samples import attempt, new_run, whole_run

pytestmark = pytest.mark.component
NOW = datetime(2026, 6, 1, tzinfo=UTC)
RULES = (RetentionRule(suite="release-*", full_days=365), RetentionRule(variant="baseline", keep="full"))


@pytest.mark.parametrize(
    "suite,variant,age,reduced",
    [
        ("demo", "x", 89, False),
        ("demo", "x", 90, True),
        ("release-1", "x", 364, False),
        ("release-1", "x", 365, True),
        ("release-1", "baseline", 365, True),
        ("demo", "baseline", 5000, False),
    ],
)
def test_first_matching_rule_decides_by_age(suite: str, variant: str, age: int, reduced: bool) -> None:
    policy = RetentionPolicy(full_days=90, rules=RULES)
    meta = {"suite": suite, "variant": variant}
    assert decide_retention(policy, meta, NOW - timedelta(days=age), NOW).reduce is reduced


@pytest.mark.parametrize(
    "text,problem",
    [
        ("rules: []", "full_days"),
        ("full_days: -1", "full_days"),
        ("full_days: 1\nfull_dais: 2", "full_dais: unknown key"),
        ("full_days: 1\nrules: [{suite: a}]", "either full_days or keep"),
        ("full_days: 1\nrules: [{suite: a, full_days: 1, keep: full}]", "either full_days or keep"),
    ],
)
def test_invalid_policy_is_reported_with_its_place(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "retention.yaml"
    file.write_text(text)
    with pytest.raises(ContractError) as refused:
        read_policy(file)
    assert any(problem in line and line.startswith(f"{file}:") for line in refused.value.problems)


def retain(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def policy(tmp_path: Path, text: str = "full_days: 0") -> Path:
    file = tmp_path / "retention.yaml"
    file.write_text(text)
    return file


def approvals(run: Path) -> list[RunReduced]:
    return [event.payload for event in read_events(run / "events.jsonl") if isinstance(event.payload, RunReduced)]


def test_policy_is_applied_to_all_runs_of_a_folder(tmp_path: Path) -> None:
    runs = [whole_run(tmp_path / "runs") for _ in range(2)]
    unfinished = new_run(tmp_path / "runs")
    attempt(unfinished)
    unfinished.release()
    file = policy(tmp_path)
    shown = retain(tmp_path / "runs", "--policy", file)
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("reduce ") == 2
    assert "keep: the run has not ended" in shown.output
    assert not any(map(approvals, runs))
    assert retain(tmp_path / "runs", "--policy", file, "--apply").exit_code == 2
    applied = retain(tmp_path / "runs", "--policy", file, "--apply", "--approved-by", "eve", "--json")
    assert applied.exit_code == 0, applied.output
    assert sorted(step["action"] for step in json.loads(applied.output)["runs"]) == ["keep", "reduced", "reduced"]
    for run in runs:
        (approval,) = approvals(run)
        assert approval.approved_by == "eve"
        assert approval.reason.startswith("full for 0 days, until ")
        assert "(retention.yaml sha256:" in approval.reason
        assert verify_run(run).ok
    again = retain(tmp_path / "runs", "--policy", file, "--apply", "--approved-by", "eve", "--json")
    assert sorted(step["action"] for step in json.loads(again.output)["runs"]) == ["keep", "minimal", "minimal"]
    assert [len(approvals(run)) for run in runs] == [1, 1]


def test_young_and_altered_runs_are_not_reduced(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    kept = retain(run, "--policy", policy(tmp_path, "full_days: 30"), "--apply", "--approved-by", "eve")
    assert "keep: full for 30 days, until " in kept.output
    (run / "tasks/other/diffs/final.patch").write_bytes(b"")
    refused = retain(run, "--policy", policy(tmp_path), "--apply", "--approved-by", "eve")
    assert refused.exit_code == 1
    assert "refused: " in refused.output
    assert approvals(run) == []


def test_folder_without_runs_and_apply_without_policy_are_refused(tmp_path: Path) -> None:
    assert isinstance(retain(tmp_path, "--policy", policy(tmp_path)).exception, InputError)
    assert retain(tmp_path, "--apply").exit_code == 2
    assert retain().exit_code == 2


def test_deletion_of_evidence_of_a_signed_run_is_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = tmp_path / "keys"
    monkeypatch.setenv("AB_KEYS", str(keys))
    create_key("ada", None, keys)
    run = whole_run(tmp_path / "runs")
    sign_run(run, load_signing_key("ada", keys))
    yes = ("--approved-by", "eve", "--reason", "old")
    refused = retain(run, *yes)
    assert isinstance(refused.exception, InputError)
    assert "is signed, so the deletion must be signed too" in str(refused.exception)
    assert approvals(run) == []
    assert retain(run, *yes, "--sign", "ada").exit_code == 0
    assert verify_run(run).ok
    check = verify_signature(run, read_trust("ada", keys))
    assert check.ok
    assert check.reduced_by == "ada"
