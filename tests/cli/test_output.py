"""What a run prints when it has ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from agentbench.cli import demo
from agentbench.cli.output import called_as, print_result
from agentbench.core.reasons import TerminationCode
from agentbench.execution.study import StudyResult
from agentbench.record.schema import TerminationRecord
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


def test_attempts_outside_the_rates_are_not_in_the_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_dir(
        tmp_path / "run", [record("a", "pass"), record("b", "fail"), record("c", "harness"), record("d", "safety")]
    )
    print_result(StudyResult((run,)), as_json=False)
    assert capsys.readouterr().out.splitlines()[0] == "1 of 3 attempts passed, 1 invalid and in no rate"


def test_run_of_several_methods_ends_with_the_command_that_compares_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tuple(run_dir(tmp_path / name, [record("a"), record("b", "fail")]) for name in ("first", "second", "third"))
    print_result(StudyResult(runs), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == f"Compare: ab report compare {runs[0]} {runs[1]} {runs[2]}"
    print_result(StudyResult(runs[:2]), as_json=False)
    assert capsys.readouterr().out.splitlines()[-1] == f"Compare: ab report paired {runs[0]} {runs[1]}"
    print_result(StudyResult(runs[:1]), as_json=False)
    assert "Compare:" not in capsys.readouterr().out


def test_run_of_several_methods_has_a_total_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = run_dir(tmp_path / "old", [record("a", variant="old"), record("b", "fail", variant="old")])
    new = run_dir(tmp_path / "new", [record("a", variant="new"), record("b", "harness", variant="new")])
    print_result(StudyResult((old, new)), as_json=False)
    assert capsys.readouterr().out.splitlines()[:2] == [
        "old: 1 of 2 attempts passed",
        "new: 1 of 1 attempt passed, 1 invalid and in no rate",
    ]


def test_command_that_no_attempt_found_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crashed = "the agent's program crashed: exit status 127; last line of stderr: sh: slove: not found"
    lost = TerminationRecord(code=TerminationCode.AGENT_CRASHED, rationale=crashed)
    attempts = [record(task, "fail", variant="mine", termination=lost) for task in ("a", "b")]
    warning = "warning: the command of mine was not found in any attempt (exit status 127); check --agent-command"
    print_result(StudyResult((run_dir(tmp_path / "lost", attempts),)), as_json=False)
    assert warning in capsys.readouterr().err
    some = run_dir(tmp_path / "some", [*attempts, record("c", "fail", variant="mine")])
    print_result(StudyResult((some,)), as_json=False)
    assert "warning" not in capsys.readouterr().err


def test_demo_with_json_writes_its_steps_to_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_dir(tmp_path / "run", [record("a"), record("b", "fail")])

    def steps(*_: object) -> tuple[StudyResult, int]:
        click.echo("1. Validating tasks")
        return StudyResult((run,)), 1

    monkeypatch.setattr(demo, "_run_demo", steps)
    ran = CliRunner().invoke(demo.command, ["--json"])
    assert ran.exit_code == 1
    assert ran.stderr == "1. Validating tasks\n"
    document = json.loads(ran.stdout)
    assert document["state"] == "finished"
    assert [attempt["task_id"] for attempt in document["attempts"]] == ["a", "b"]


def test_commands_to_copy_name_the_program_that_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ab"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert called_as() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert called_as() == "ab"
    monkeypatch.setattr(sys, "argv", ["__main__.py"])
    assert called_as() == "ab"
