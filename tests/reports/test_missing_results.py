"""Reports say in their first line that planned attempts have no result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.main import root
from agentbench.cli.output import print_result
from agentbench.core.reasons import TerminationCode
from agentbench.execution.study import StudyResult
from agentbench.record.schema import AttemptRecord, TerminationRecord
from tests.reports.runs import record, run_dir, write_planned_run

pytestmark = pytest.mark.synthetic
TASKS = [f"t{number}" for number in range(6)]
LABEL = "INCOMPLETE: 3 of 6 attempts have no result]"


def ab(*args: object) -> str:
    return CliRunner().invoke(root, [str(arg) for arg in args]).output


def first_line(*args: object) -> str:
    return ab(*args).splitlines()[0]


def cut_off(task: str, code: TerminationCode) -> AttemptRecord:
    return record(task, "operator", termination=TerminationRecord(code=code, rationale="cut off"))


def planned(folder: Path, records: list[AttemptRecord]) -> Path:
    return write_planned_run(folder, TASKS, records)


@pytest.fixture
def incomplete(tmp_path: Path) -> Path:
    """A run with three results, one interrupted attempt, one over the total budget, and one that was not started."""
    ended = [
        cut_off("t3", TerminationCode.INTERRUPTED),
        cut_off("t4", TerminationCode.TOTAL_BUDGET),
    ]
    return planned(tmp_path / "incomplete", [*(record(task) for task in TASKS[:3]), *ended])


@pytest.fixture
def complete(tmp_path: Path) -> Path:
    return planned(tmp_path / "complete", [record(task) for task in TASKS])


def test_show_and_summary_say_that_a_run_is_incomplete(incomplete: Path, complete: Path) -> None:
    assert first_line("show", incomplete).endswith(f"[{LABEL}")
    assert first_line("report", "summary", incomplete).endswith(f"[{LABEL}")
    causes = "1 not finished, 1 interrupted, 1 total budget"
    assert causes in ab("report", "summary", incomplete)
    assert causes in ab("report", "summary", incomplete, "--format", "csv")
    assert causes in ab("report", "summary", incomplete, "--format", "junit")
    assert "INCOMPLETE" not in ab("report", "summary", complete)


def test_incomplete_runs_name_what_continues_them(incomplete: Path, complete: Path, tmp_path: Path) -> None:
    graded = planned(tmp_path / "graded", [record("t0", agent="patch")])
    pilot = planned(tmp_path / "pilot", [record("t0")])
    meta = json.loads((pilot / "run.json").read_text())
    (pilot / "run.json").write_text(json.dumps({**meta, "pilot": {"stage": "full"}}))
    for run, remedy in (
        (incomplete, "`ab run --resume` continues it"),
        (graded, "grade the patches again"),
        (pilot, "`ab pilot run` continues it"),
    ):
        for shown in (ab("show", run), ab("report", "paired", complete, run)):
            assert f"unless it is still running, {remedy}" in shown.replace("'", "`")


def test_list_of_runs_and_json_of_a_run_do_not_call_it_finished(
    incomplete: Path, complete: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = json.loads(ab("runs", "ls", "--out", incomplete.parent, "--json"))["runs"]
    assert {run["name"]: run["state"] for run in listed} == {"complete": "finished", "incomplete": "incomplete"}
    assert "  incomplete  " in ab("runs", "ls", "--out", incomplete.parent)
    for runs, state in (((complete, incomplete), "incomplete"), ((complete,), "finished")):
        print_result(StudyResult(runs), as_json=True)
        assert json.loads(capsys.readouterr().out)["state"] == state


def test_comparisons_say_which_run_is_incomplete(incomplete: Path, complete: Path) -> None:
    assert first_line("report", "paired", complete, incomplete).endswith(f"[B {LABEL}")
    assert first_line("report", "paired", incomplete, complete).endswith(f"[A {LABEL}")
    assert first_line("report", "compare", complete, incomplete).endswith(f"[baseline [incomplete] {LABEL}")


def test_json_reports_count_missing_results(incomplete: Path, complete: Path) -> None:
    counts = {
        "planned": 6,
        "without_result": 3,
        "causes": {"not finished": 1, "interrupted": 1, "total budget": 1},
    }
    assert json.loads(ab("report", "summary", incomplete, "--json"))["incomplete"] == counts
    assert json.loads(ab("report", "summary", complete, "--json"))["incomplete"] is None
    sides = json.loads(ab("report", "paired", complete, incomplete, "--json"))
    assert (sides["a"]["incomplete"], sides["b"]["incomplete"]) == (None, counts)


def test_page_says_that_a_run_is_incomplete(incomplete: Path, tmp_path: Path) -> None:
    ab("report", "summary", incomplete, "--format", "html", "--out", tmp_path / "page")
    assert '"incomplete":{"planned":6' in (tmp_path / "page/index.html").read_text(encoding="utf-8")
    ab("show", incomplete, "--task", "t1", "--html", tmp_path / "one.html")
    assert '"incomplete":null' in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_gate_is_undecided_on_an_incomplete_run(incomplete: Path, complete: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate.yaml"
    gate.write_text("max_drop: 0.05\n", encoding="utf-8")
    result = CliRunner().invoke(root, ["report", "paired", str(complete), str(incomplete), "--gate", str(gate)])
    assert result.exit_code == 2
    assert result.output.startswith("GATE UNDECIDED: complete: B: the run is incomplete: 3 of 6 attempts")


def test_the_only_attempt_of_a_run_is_shown_in_full_if_interrupted(tmp_path: Path) -> None:
    run = run_dir(tmp_path / "run", [cut_off("t0", TerminationCode.INTERRUPTED)])
    meta = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**meta, "variant": "baseline", "order": [["t0", "baseline", 1]]}))
    assert first_line("show", run).startswith("INVALID INTERRUPTED")


def test_attempts_that_a_stopping_rule_leaves_out_are_not_missing(tmp_path: Path) -> None:
    run = planned(tmp_path / "run", [record(task) for task in TASKS[:3]])
    meta = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**meta, "request": {"stop_when": "decided"}}))
    assert "INCOMPLETE" not in ab("report", "summary", run)
