"""`ab runs ls` lists runs newest first, with their state and counts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.runs import command
from agentbench.core.canonical import Json
from agentbench.core.errors import InputError
from agentbench.record.find_run import find_run
from agentbench.record.run_directory import RunDirectory
from agentbench.reports.run_list import list_runs
from tests.reports.runs import record, run_dir


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    kinds = ["pass", "fail", "policy", "error", "safety", "harness", "task", "operator"]
    run_dir(tmp_path / "all-kinds", [record(kind, kind) for kind in kinds])
    return tmp_path


def test_counts_follow_the_contract_rate(runs: Path) -> None:
    (entry,) = list_runs(runs)
    assert (entry.attempts, entry.passed, entry.not_passed, entry.not_counted, entry.invalid) == (8, 1, 4, 3, 4)
    assert entry.state == "finished"
    assert entry.bytes > 0


def test_state_tells_running_interrupted_and_incomplete_runs_apart(tmp_path: Path) -> None:
    meta: dict[str, Json] = {"order": [["one", "noop", 1], ["one", "other", 1], ["two", "noop", 1]]}
    run = RunDirectory.create(tmp_path, suite="tiny", variant="noop", model=None, meta=meta)
    (entry,) = list_runs(tmp_path)
    assert (entry.state, entry.planned, entry.attempts) == ("running", 2, 0)
    run.release()
    assert [entry.state for entry in list_runs(tmp_path)] == ["interrupted"]
    with RunDirectory.open(run.path, writable=True) as resumed:
        resumed.close("interrupted")
    assert [entry.state for entry in list_runs(tmp_path)] == ["interrupted"]
    with RunDirectory.open(run.path, writable=True) as resumed:
        resumed.close()
    assert [entry.state for entry in list_runs(tmp_path)] == ["incomplete"]


def test_unreadable_run_does_not_hide_the_others(runs: Path) -> None:
    shutil.copytree(runs / "all-kinds", runs / "broken")
    (runs / "broken" / "attempts.jsonl").write_text("{}\n")
    states = {entry.name: entry.state for entry in list_runs(runs)}
    assert states == {"all-kinds": "finished", "broken": "unreadable"}


def test_listing_as_text_and_json(runs: Path) -> None:
    text = CliRunner().invoke(command, ["ls", "--out", str(runs)]).output
    assert "1 passed, 4 not passed, 3 not counted" in text
    data = json.loads(CliRunner().invoke(command, ["ls", "--out", str(runs), "--json"]).output)
    assert [entry["name"] for entry in data["runs"]] == ["all-kinds"]


def test_folder_above_folders_of_runs_says_where_they_are(runs: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"
    for name in ("b", "a"):
        shutil.copytree(runs / "all-kinds", above / name / "all-kinds")
    (above / "empty").mkdir()
    done = CliRunner().invoke(command, ["ls", "--out", str(above)])
    below = f"; there are runs below it: give --out {above / 'a'} or --out {above / 'b'}"
    assert (done.exit_code, done.output) == (0, f"0 runs in {above}{below}\n")
    assert CliRunner().invoke(command, ["ls", "--out", str(above / "empty")]).output == f"0 runs in {above / 'empty'}\n"
    with pytest.raises(InputError, match="no runs in") as caught:
        find_run(f"{above}/latest")
    assert caught.value.remedy == f"give {above / 'a' / 'latest'} or {above / 'b' / 'latest'}"


def test_missing_folder_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["ls", "--out", str(tmp_path / "nowhere")])
    assert (done.exit_code, done.output) == (0, f"0 runs: {tmp_path / 'nowhere'} does not exist\n")
