from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.rescore import command
from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import Outcome, TerminationCode
from tests.record.samples import SampleAttempt, attempt, new_run, whole_run
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.synthetic


def rescore(*args: object) -> Result:
    return CliRunner().invoke(command, list(map(str, args)))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return whole_run(tmp_path / "runs")


@pytest.mark.req("A-09a", "G-04")
def test_weights_change_scores_but_not_verdicts(run: Path, tmp_path: Path) -> None:
    before = (run / "attempts.jsonl").read_bytes()
    weights = write(tmp_path / "w.yaml", "weights: {minimal: 1, trace: 0, maintainability: 0}")
    data = json.loads(rescore(run, "--weights", weights, "--json").output)
    assert data["label"] == "COUNTERFACTUAL"
    assert data["decision"].startswith("COUNTERFACTUAL: ")
    for attempt_json in data["attempts"]:
        assert attempt_json["label"] == "COUNTERFACTUAL"
        assert attempt_json["passed"] == attempt_json["counterfactual_passed"]
    scores = [(one["score"], one["counterfactual_score"]) for one in data["attempts"] if one["passed"]]
    assert scores
    assert all(old != new for old, new in scores)
    assert (run / "attempts.jsonl").read_bytes() == before


@pytest.mark.req("A-09a")
def test_tighter_cap_fails_attempts_that_changed_later(run: Path, tmp_path: Path) -> None:
    none = write(tmp_path / "none.yaml", "tool_calls: 0")
    data = json.loads(rescore(run, "--caps", none, "--json").output)
    passed = [one for one in data["attempts"] if one["passed"]]
    assert passed
    assert all(one["counterfactual_passed"] is False for one in passed)
    assert all(one["counterfactual_reason"] == "BUDGET_EXHAUSTED" for one in passed)
    same = json.loads(rescore(run, "--caps", write(tmp_path / "many.yaml", "tool_calls: 1000"), "--json").output)
    assert all(one["passed"] == one["counterfactual_passed"] for one in same["attempts"])
    unchanged = [one for one in data["attempts"] if not one["passed"]]
    assert all(one["counterfactual_passed"] is False for one in unchanged)


@pytest.mark.req("A-09a")
def test_headline_counts_the_attempts_of_the_contract_rate(tmp_path: Path) -> None:
    run = new_run(tmp_path / "runs")
    attempt(run, "good")
    attempt(run, "bad", sample=SampleAttempt(outcome=Outcome.FAIL))
    attempt(run, "broken", sample=SampleAttempt(ending=TerminationCode.SETUP_FAILED))
    run.close()
    caps = write(tmp_path / "c.yaml", "tool_calls: 1000")
    text = rescore(run.path, "--caps", caps).output
    counts = "1 of 2 would have passed, 1 of 2 did (caps tool_calls 1000); 1 invalid attempt not counted"
    assert text.splitlines()[0] == f"# COUNTERFACTUAL: {counts}"
    cells = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[3:5]] for line in text.splitlines()[4:7]
    }
    assert cells == {"`good`": ["yes", "yes"], "`bad`": ["no", "no"], "`broken`": ["not counted", "not counted"]}


@pytest.mark.req("A-09a")
def test_effect_of_a_looser_cap_is_unknown(tmp_path: Path) -> None:
    run = new_run(tmp_path / "runs")
    attempt(run, "toy", sample=SampleAttempt(outcome=Outcome.FAIL, ending=TerminationCode.TOOL_CALL_CAP))
    run.close()
    looser = write(tmp_path / "c.yaml", "tool_calls: 100000")
    data = json.loads(rescore(run.path, "--caps", looser, "--json").output)
    assert data["attempts"][0]["counterfactual_passed"] is None
    assert "1 unknown" in data["decision"]


@pytest.mark.req("A-09a")
def test_every_format_is_labelled(run: Path, tmp_path: Path) -> None:
    caps = write(tmp_path / "c.yaml", "active_sec: 0.000001")
    text = rescore(run, "--caps", caps).output
    assert text.startswith("# COUNTERFACTUAL: ")
    assert "COUNTERFACTUAL passed" in text
    rows = list(csv.DictReader(io.StringIO(rescore(run, "--caps", caps, "--format", "csv").output)))
    assert {row["label"] for row in rows} == {"COUNTERFACTUAL"}


@pytest.mark.parametrize(
    "option,text,message",
    [
        ("--weights", "{minimal: 0.5, trace: 0.5}", "exactly the keys"),
        ("--weights", "{minimal: 0.5, trace: 0.6, maintainability: 0.1}", "sum to 1"),
        ("--caps", "usd: 1e308", "expected at most 1e+15; got 1e+308"),
        ("--caps", "active_sec: 1e308", "expected at most 1e+15; got 1e+308"),
        ("--weights", "{minimal: 1e308, trace: 1e308, maintainability: 1e308}", "numbers from 0 to 1, got 1e+308"),
        ("--weights", "{minimal: yes, trace: 0, maintainability: 0}", "expected a number"),
        ("--weights", "[1]", "expected a mapping"),
        ("--caps", "{steps: 3}", "x.yaml:1: steps: unknown key"),
        ("--caps", "{usd: -1}", "expected a number"),
        ("--caps", "{usd: .inf}", "expected a number"),
        ("--caps", "{}", "expected some of"),
        ("--caps", "{a: [", "invalid YAML"),
        ("--caps", "usd: -1\ntokns: 3\n", "x.yaml:2: tokns: unknown key (did you mean `tokens`?)"),
    ],
)
def test_invalid_assumption_file_is_rejected(run: Path, tmp_path: Path, option: str, text: str, message: str) -> None:
    result = rescore(run, option, write(tmp_path / "x.yaml", text))
    assert isinstance(result.exception, ContractError)
    assert message in "\n".join(result.exception.problems)


def test_problems_of_both_assumption_files_are_listed(run: Path, tmp_path: Path) -> None:
    caps, weights = write(tmp_path / "c.yaml", "usd: -1\ntokns: 3\n"), write(tmp_path / "w.yaml", "minimal: x\n")
    error = rescore(run, "--caps", caps, "--weights", weights).exception
    assert isinstance(error, ContractError)
    assert len(error.problems) == 3


def test_missing_assumption_or_trace_is_rejected(run: Path, tmp_path: Path) -> None:
    assert isinstance(rescore(run).exception, InputError)
    for log in run.glob("tasks/*/events.jsonl"):
        log.unlink()
    result = rescore(run, "--caps", write(tmp_path / "c.yaml", "usd: 1"))
    assert isinstance(result.exception, InputError)
    assert "cannot rescore" in result.exception.message


def test_rescore_of_an_imported_run_says_that_it_was_imported(tmp_path: Path) -> None:
    rows = [record(f"t{n}", contract_id=f"imported:{n}") for n in range(2)]
    imported = run_dir(tmp_path / "imported", rows)
    (imported / "events.jsonl").unlink()
    (imported / "run.json").write_text(
        json.dumps({"run_id": "01R", "imported": {"tool": "Inspect AI"}}), encoding="utf-8"
    )
    result = rescore(imported, "--caps", write(tmp_path / "c.yaml", "usd: 1"))
    assert isinstance(result.exception, InputError)
    assert "was imported from Inspect AI" in result.exception.message
