from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from agentbench.cli.report import command
from agentbench.core.errors import InputError
from agentbench.record.schema import ArtifactPaths
from agentbench.reports.card import run_card
from agentbench.reports.sources import open_run
from agentbench.reports.summary import COUNTING, decision, summarise
from agentbench.reports.summary_data import as_csv, as_json
from agentbench.reports.summary_markdown import as_markdown, write_summary
from tests.reports.runs import HOSTILE, record, run_dir

pytestmark = pytest.mark.synthetic

MIXED = ["pass", "pass", "policy", "fail", "error", "harness", "task", "operator", "safety"]


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return run_dir(tmp_path / "run", [record(f"t{number}", kind) for number, kind in enumerate(MIXED)])


def invoke(*args: str) -> str:
    result = CliRunner().invoke(command, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.req("A-01")
def test_first_line_is_the_decision(mixed: Path) -> None:
    first = invoke("summary", "--run", str(mixed)).splitlines()[0]
    assert first == "# 2 of 6 passed: contract rate 33.3% (95% CI 9.7% to 70.0%); 3 invalid attempts not counted"


@pytest.mark.req("A-01", "G-16")
def test_markdown_has_rates_denominators_reasons_and_evidence(mixed: Path) -> None:
    text = invoke("summary", "--run", str(mixed))
    assert "| contract | 2 of 6 | 33.3% |" in text
    assert "| acceptance | 3 of 5 | 60.0% |" in text
    assert "| acceptance errors | 1 of 5 | 20.0% |" in text
    assert "| invalid | 4 of 9 | 44.4% |" in text
    assert COUNTING in text
    assert "| `TESTS_FAILED` | 1 | █" in text
    assert "[`evidence`](tasks/t3)" in text
    assert "per_test" in text
    for cause in ("harness", "task", "operator", "safety"):
        assert f"| {cause} | 1 |" in text


@pytest.mark.req("A-01")
def test_json_has_the_same_numbers(mixed: Path) -> None:
    for flags in (["--format", "json"], ["--json"]):
        data = json.loads(invoke("summary", "--run", str(mixed), *flags))
        assert data["rates"]["contract"] | {"interval": None} == {
            "count": 2,
            "total": 6,
            "share": 2 / 6,
            "interval": None,
        }
        assert data["rates"]["acceptance"]["total"] == 5
        assert data["invalid_by_cause"] == {"harness": 1, "task": 1, "safety": 1, "operator": 1}
        assert data["failure_reasons"]["POLICY_VIOLATION"] == 1
        assert data["decision"].startswith("2 of 6 passed")


@pytest.mark.req("A-01", "U-04")
def test_csv_has_a_row_per_attempt_and_can_be_read_back(mixed: Path, tmp_path: Path) -> None:
    text = invoke("summary", "--run", str(mixed), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["outcome"] for row in rows] == [
        "pass", "pass", "fail", "fail", "error", "invalid:harness", "invalid:task", "invalid:operator", "invalid:safety",
    ]  # fmt: skip
    file = tmp_path / "results.csv"
    file.write_text(text, encoding="utf-8")
    data = json.loads(invoke("paired", "--run-a", str(mixed), "--run-b", str(file), "--json"))
    assert data["comparisons"]["contract"]["difference"] == 0
    assert data["comparisons"]["contract"]["tasks"] == 6
    assert data["comparisons"]["acceptance"]["difference"] == 0


@pytest.mark.req("A-01")
def test_junit_separates_failures_errors_and_skipped(mixed: Path) -> None:
    root = ET.fromstring(invoke("summary", "--run", str(mixed), "--format", "junit"))  # noqa: S314 - our own output
    assert root.attrib | {"time": ""} == {"tests": "9", "failures": "3", "errors": "2", "skipped": "2", "time": ""}
    kinds = {case.attrib["name"]: [child.tag for child in case] for case in root.iter("testcase")}
    assert kinds["t0"] == []
    assert kinds["t2"] == kinds["t3"] == kinds["t8"] == ["failure"]
    assert kinds["t4"] == kinds["t5"] == ["error"]
    assert kinds["t6"] == kinds["t7"] == ["skipped"]


@pytest.mark.req("G-04")
def test_mean_score_is_over_passing_attempts(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a", score=0.5), record("b", score=1.0), record("c", "fail")])
    summary = summarise(open_run(run))
    assert (summary.mean_score, summary.scored) == (0.75, 2)
    assert "over 2 attempts that passed all gates" in as_markdown(summary)


@pytest.mark.req("A-01")
def test_empty_and_all_invalid_runs_have_their_own_decision(tmp_path: Path) -> None:
    empty = summarise(open_run(run_dir(tmp_path / "empty", [])))
    assert decision(empty).startswith("EMPTY")
    assert as_markdown(empty).startswith("# EMPTY")
    invalid = summarise(open_run(run_dir(tmp_path / "invalid", [record("a", "task"), record("b", "harness")])))
    assert decision(invalid) == "NOTHING TO SCORE: all 2 attempts invalid (harness: 1, task: 1)"
    assert "| contract | 0 of 0 | undefined | none |" in as_markdown(invalid)
    other_seed = summarise(open_run(run_dir(tmp_path / "seed", [record("a", "harness", seed=1337)])))
    assert decision(other_seed) == "NOTHING TO SCORE: all 1 attempt invalid (harness: 1) [PROVISIONAL]"


@pytest.mark.req("A-01")
def test_hardest_tasks_have_the_lowest_pass_rate(tmp_path: Path) -> None:
    records = [record("easy", "pass", repeat) for repeat in (1, 2)]
    records += [record("half", kind, repeat) for repeat, kind in ((1, "pass"), (2, "fail"))]
    records += [record("hard", "fail", repeat) for repeat in (1, 2)]
    summary = summarise(open_run(run_dir(tmp_path / "run", records)))
    assert [line.task for line in summary.hardest] == ["hard", "half"]
    assert "clustered by task" in as_markdown(summary)


@pytest.mark.req("R-11c")
def test_other_base_seed_is_a_deviation(tmp_path: Path) -> None:
    text = as_markdown(summarise(open_run(run_dir(tmp_path / "run", [record(seed=1337)]))))
    assert "Protocol deviations" in text
    assert "1337" in text


def test_superseded_attempts_are_counted_separately(tmp_path: Path) -> None:
    old = record("a", "operator", final=False, attempt_id="old")
    summary = summarise(open_run(run_dir(tmp_path / "run", [old, record("a", supersedes="old")])))
    assert (summary.rates.attempts, summary.run.superseded) == (1, 1)
    assert "1 earlier attempt superseded" in as_markdown(summary)


def test_superseded_attempts_are_spent_money_and_in_no_other_cost(tmp_path: Path) -> None:
    old = record("a", "operator", final=False, attempt_id="old")
    summary = summarise(open_run(run_dir(tmp_path / "run", [old, record("a", supersedes="old")])))
    (costs,) = json.loads(json.dumps(as_json(summary)["cost"]))
    assert (costs["total"], costs["per_pass"], costs["superseded"], costs["spent"]) == (0.5, 0.5, 0.5, 1.0)
    spent = "Spent: 1 `usd`, 0.5 of it by superseded attempts, which no rate and no other cost counts."
    assert spent in as_markdown(summary)
    assert "cost         0.5 usd + 0.5 by superseded attempts" in run_card(summary)


def test_hostile_text_is_escaped_in_every_format(tmp_path: Path) -> None:
    hostile = record(
        "toy",
        "task",
        variant=HOSTILE,
        agent="=cmd|' /C calc'!A0",
        termination={"code": "setup_failed", "rationale": HOSTILE},
        artifact_paths=ArtifactPaths(task_dir="../../etc/passwd"),
    )
    run = run_dir(tmp_path / "run", [hostile, record("ok")], suite="=1+1")
    for form in ("md", "csv", "json", "junit"):
        text = invoke("summary", "--run", str(run), "--format", form)
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\x00" not in text
        if form != "json":
            assert not any(line.startswith("# PASS") for line in text.splitlines())
    markdown = invoke("summary", "--run", str(run))
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    assert "](../" not in markdown
    assert all("<script>" not in _outside_code(line) for line in markdown.splitlines())
    rows = [line for line in tables if "SETUP_FAILED" in line and "repeat" not in line and "evidence" not in line]
    assert rows, "the hostile row is there"
    root = ET.fromstring(invoke("summary", "--run", str(run), "--format", "junit"))  # noqa: S314 - our own output
    assert len(list(root.iter("testcase"))) == 2


def _outside_code(line: str) -> str:
    return "".join(part for index, part in enumerate(line.split("`")) if index % 2 == 0)


def test_no_csv_cell_is_a_formula(tmp_path: Path) -> None:
    hostile = [
        record(f"t{number}", variant=text)
        for number, text in enumerate(["=1+1", "+1", "-1", "@x", "\t=1", " =1", "%0A=1"])
    ]
    text = as_csv(summarise(open_run(run_dir(tmp_path / "run", hostile))))
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "%")), cell


@pytest.mark.req("U-01")
def test_non_run_directories_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no run\.json"):
        open_run(tmp_path)
    run = run_dir(tmp_path / "run", [record()])
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(b'{"not": "a record"}\n')
    with pytest.raises(InputError, match=r"attempts\.jsonl:2"):
        open_run(run)


def test_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record()])
    with (run / "attempts.jsonl").open("ab") as file:
        file.write(record("u").line()[:50])
    assert [record.task_id for record in open_run(run).finals] == ["toy"]
    assert open_run(run / "attempts.jsonl").path == run


def test_summary_is_written_to_the_run_directory(mixed: Path) -> None:
    path = write_summary(mixed)
    assert path == mixed / "report_summary.md"
    assert path.read_text(encoding="utf-8") == invoke("summary", "--run", str(mixed))


@pytest.mark.req("A-01", "G-16")
def test_safety_stops_are_listed_as_invalid(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "safety"), record("c", "safety")])
    text = as_markdown(summarise(open_run(run)))
    assert "## Invalid attempts by cause" in text
    assert "| safety | 2 |" in text
    assert "Undecided attempts" not in text


def test_summary_states_decoy_coverage_by_task(tmp_path: Path) -> None:
    records = [record("a", decoy_coverage=1.0), record("b", "fail", decoy_coverage=0.25), record("c")]
    run = open_run(run_dir(tmp_path / "run", records))
    summary = summarise(run)
    assert as_json(summary)["decoy_coverage"] == [{"task": "a", "share": 1.0}, {"task": "b", "share": 0.25}]
    text = as_markdown(summary)
    assert "Decoy tests cover 62.5% of the fail-to-pass tests (mean of 2 tasks)" in text
    assert "at 1 task below 50.0%, where a pass is easier to forge" in text
    bare = open_run(run_dir(tmp_path / "bare", [record("a", decoy_coverage=0.0), record("b", decoy_coverage=0.25)]))
    assert "at 2 tasks (1 without any) below 50.0%" in as_markdown(summarise(bare))
    rows = list(csv.DictReader(io.StringIO(as_csv(summary))))
    assert [row["decoy_coverage"] for row in rows] == ["1.0", "0.25", ""]
