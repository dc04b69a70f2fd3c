from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.verify import command
from agentbench.core.errors import InputError
from tests.record.samples import new_run, whole_run

pytestmark = [pytest.mark.req("E-12"), pytest.mark.component]


def test_first_line_is_the_decision(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    done = CliRunner().invoke(command, [str(run)])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == "VERIFIED: 3 attempts, 50 events, 3 verdicts recomputed"
    (run / "tasks/other/diffs/final.patch").write_bytes(b"")
    done = CliRunner().invoke(command, [str(run)])
    assert done.exit_code == 1
    assert done.output.startswith("ALTERED changed: tasks/other/diffs/final.patch: ")


def test_unclosed_run_is_incomplete(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(new_run(tmp_path).path)])
    assert done.exit_code == 1
    assert done.output.startswith("INCOMPLETE unclosed: events.jsonl:2: ")


def test_json_is_one_document(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    done = CliRunner().invoke(command, [str(run), "--json"])
    value = json.loads(done.output)
    assert (value["ok"], value["decision"], value["problems"], value["recomputed"]) == (True, "verified", [], 3)
    done = CliRunner().invoke(command, [str(run), "--json", "--expect-head", "sha256:" + "0" * 64])
    assert done.exit_code == 1
    assert json.loads(done.output)["first_problem"].startswith("changed: events.jsonl: ")


def test_several_runs_have_one_block_each_and_the_worst_exit_code(tmp_path: Path) -> None:
    whole, unclosed, missing = whole_run(tmp_path / "a"), new_run(tmp_path / "b").path, tmp_path / "nothing"
    done = CliRunner().invoke(command, [str(whole), str(unclosed)])
    assert done.exit_code == 1
    assert f"{whole}: VERIFIED: 3 attempts" in done.output
    assert f"\n{unclosed}: INCOMPLETE unclosed: " in done.output
    missing.mkdir()
    done = CliRunner().invoke(command, [str(missing), str(unclosed), str(whole), "--json"])
    assert done.exit_code == 2
    value = json.loads(done.output)
    assert [(run["run_dir"], run["ok"]) for run in value["runs"]] == [
        (str(missing), False),
        (str(unclosed), False),
        (str(whole), True),
    ]
    assert value["ok"] is False
    assert "is not a run directory" in value["runs"][0]["error"]


def test_head_is_expected_of_one_run(tmp_path: Path) -> None:
    run = str(whole_run(tmp_path))
    done = CliRunner().invoke(command, [run, run, "--expect-head", "0" * 64])
    assert (done.exit_code, "takes only one run" in done.output) == (2, True)


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    (run / "tasks/toy/logs/\x1b[2Jx").write_text("")
    done = CliRunner().invoke(command, [str(run)])
    assert done.exit_code == 1
    assert "\x1b" not in done.output


def test_path_that_is_not_a_run_is_rejected(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(tmp_path / "nothing")])
    assert isinstance(done.exception, InputError)


def test_malformed_head_is_a_usage_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(whole_run(tmp_path)), "--expect-head", "sha256:abc"])
    assert done.exit_code == 2
    assert "expected sha256: and 64 hexadecimal digits" in done.output
