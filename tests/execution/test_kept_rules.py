"""Verify monitor decisions with a version that has other rules: use those kept in the run, or report them as skipped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from agentbench.cli.launch import run_rows
from agentbench.contract.load import load_task
from agentbench.core.canonical import canonical
from agentbench.execution.config import CliChoices
from agentbench.execution.request import RunRequest, plan_attempts
from agentbench.policy.monitor_rules import RuleSet, parse_rules, published_document, published_rules
from agentbench.record import audit, recompute
from agentbench.record.audit import RunReport, verify_run
from tests.execution.tasks import make_task
from tests.signing.attacker import reseal

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A run in which a monitor decided: its agent tried to escalate privileges."""
    base = tmp_path_factory.mktemp("rules")
    (base / "script.yaml").write_text(yaml.safe_dump({"steps": [{"run": {"command": "sudo ls"}}]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AB_STATE", str(shared_state))
        choices = CliChoices(agent="scripted", script=base / "script.yaml")
        task = load_task(make_task(base / "task"))
        request = RunRequest("tiny", "", (), (), choices, out=base / "runs")
        result = run_rows(plan_attempts([task], request), request, as_json=True)
    return result.runs[0]


def other_rules() -> RuleSet:
    """Rules of a hypothetical later version without privilege escalation."""
    document = json.loads(json.dumps(published_document()))
    document["rules"] = [rule for rule in document["rules"] if rule["id"] != "os.privilege_escalation"]
    return parse_rules(json.dumps(document))


def verified(run: Path) -> RunReport:
    return verify_run(run, recompute=recompute.recompute)


def test_published_rules_need_no_copy(run: Path) -> None:
    report = verified(run)
    assert report.ok
    assert report.skipped == ()
    assert report.unsealed == ("report_summary.md",)


@pytest.mark.req("E-12")
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"sudo", b"sudp"),
        lambda text: text + b" ",
        lambda text: text.replace(b"{", b'{"rules":[],', 1),
    ],
    ids=["content", "blank", "repeated-key"],
)
def test_changed_rules_file_is_altered_evidence(run: Path, tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (kept,) = (copy / "rules").iterdir()
    kept.write_bytes(change(kept.read_bytes()))
    report = verified(copy)
    assert report.decision == "altered"
    assert [(problem.kind, problem.place) for problem in report.problems] == [("changed", f"rules/{kept.name}")]


def test_other_files_beside_the_rules_are_reported_as_unsealed(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    (copy / "rules" / "more").write_text("[" * 100_000)
    report = verified(copy)
    assert report.ok
    assert report.unsealed == ("report_summary.md", "rules/more")


@pytest.mark.req("E-12", "M-02a", "M-03b")
def test_later_version_uses_the_rules_kept_in_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = other_rules()
    monkeypatch.setattr(recompute, "published_rules", lambda: later)
    report = verified(run)
    assert report.ok, report.problems
    assert report.skipped == ()
    # With the later rules, the recorded decision has no cause, so the kept ones were used before.
    monkeypatch.setattr("agentbench.record.audit.kept_rules", lambda _run, _name: later)
    assert "this decision does not follow from the events" in str(verified(run).problems[0])


@pytest.mark.req("E-12")
@pytest.mark.parametrize("what", ["missing", "changed", "no rules"])
def test_unusable_kept_rules_skip_the_recomputation(
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
    assert report.ok is (what == "missing")
    (why,) = report.skipped
    assert why.startswith("decisions of breakers and monitors: made with other rules (sha256:")
    assert "does not store (attempts: 1)" in why


def test_stored_rules_that_take_too_long_are_stopped(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "RULES_CPU_SEC", 0)
    copy = shutil.copytree(run, tmp_path / "copy")
    document = json.loads(json.dumps(published_document()))
    for rule in document["rules"]:
        if rule["id"] == "os.privilege_escalation":
            rule["command"] = ["(.*)" * 90 + "never"]
    slow = parse_rules(json.dumps(document)).digest
    (copy / "rules" / f"{slow.removeprefix('sha256:')}.json").write_bytes(canonical(document) + b"\n")
    manifest = next(copy.glob("tasks/*/manifest.json"))
    manifest.write_text(manifest.read_text().replace(published_rules().digest, slow))
    reseal(copy)
    report = verified(copy)
    assert [problem.message for problem in report.problems] == [
        "the rules that the run stores need more than 1 s of CPU time: not rules of any version"
    ]
