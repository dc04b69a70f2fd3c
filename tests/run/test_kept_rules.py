"""Decisions of monitors by a version that has other rules: made again by those that the run keeps, or said to be not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from agentbench.cli.launch import run_rows
from agentbench.contract.load import load_task
from agentbench.policy.monitors import RuleSet, parse_rules, published_document, published_rules
from agentbench.record import recompute
from agentbench.record.audit import RunReport, verify_run
from agentbench.run.config import CliChoices
from agentbench.run.request import RunRequest, plan_attempts
from tests.run.tasks import make_task


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A run whose agent asked for more privileges than it has: a monitor decided."""
    base = tmp_path_factory.mktemp("rules")
    (base / "script.yaml").write_text(yaml.safe_dump({"steps": [{"run": {"command": "sudo ls"}}]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AB_STATE", str(shared_state))
        choices = CliChoices(agent="scripted", script=base / "script.yaml")
        task = load_task(make_task(base / "task"))
        request = RunRequest("tiny", "", (), (), choices, out=base / "runs")
        result = run_rows(plan_attempts([task], request), request, quiet=True)
    return result.runs[0]


def other_rules() -> RuleSet:
    """As a later version might have them: asking for privileges is no matter any more."""
    document = json.loads(json.dumps(published_document()))
    document["rules"] = [one for one in document["rules"] if one["id"] != "os.privilege_escalation"]
    return parse_rules(json.dumps(document))


def verified(run: Path) -> RunReport:
    return verify_run(run, recompute=recompute.recompute)


def test_rules_of_this_version_need_no_copy(run: Path) -> None:
    report = verified(run)
    assert report.ok
    assert report.skipped == ()
    assert report.unsealed == ("report_summary.md",)


def test_what_lies_among_the_rules_and_is_not_what_its_name_says_is_told(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (kept,) = (copy / "rules").iterdir()
    kept.write_bytes(kept.read_bytes().replace(b"sudo", b"sudp"))
    (copy / "rules" / "more").write_text("[" * 100_000)
    report = verified(copy)
    assert report.ok
    assert report.unsealed == ("report_summary.md", f"rules/{kept.name}", "rules/more")


@pytest.mark.req("E-12", "M-02", "M-03")
def test_a_version_with_other_rules_decides_by_those_that_the_run_keeps(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = other_rules()
    monkeypatch.setattr(recompute, "published_rules", lambda: later)
    report = verified(run)
    assert report.ok, report.problems
    assert report.skipped == ()
    # It is by the rules that it was confirmed: by the later ones the log tells of a decision that nothing gives.
    monkeypatch.setattr("agentbench.record.audit.kept_rules", lambda _run, _name: later)
    assert "no event gives this decision" in str(verified(run).problems[0])


@pytest.mark.req("E-12")
@pytest.mark.parametrize("what", ["missing", "changed", "no rules"])
def test_what_cannot_be_made_again_is_said(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (kept,) = (run / "rules").iterdir()
    assert kept.stem in published_rules().digest
    before = kept.read_bytes()
    later = other_rules()
    monkeypatch.setattr(recompute, "published_rules", lambda: later)
    try:
        if what == "missing":
            kept.unlink()
        else:
            kept.write_bytes(before.replace(b"sudo", b"nobody") if what == "changed" else b"[]")
        report = verified(run)
    finally:
        kept.write_bytes(before)
    assert report.ok
    (why,) = report.skipped
    assert why.startswith("decisions of breakers and monitors: rules differ (sha256:")
    assert "does not keep them (attempts: 1)" in why
