"""Objects of a notebook take part in a run, which says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import agentbench as ab
from agentbench.execution.request import recorded_request
from agentbench.record.manifest import PluginUse, read_manifest
from agentbench.record.run_directory import RunDirectory
from tests.execution.conftest import shared_state
from tests.execution.tasks import make_task

__all__ = ["shared_state"]
pytestmark = pytest.mark.end_to_end
CHECK = "if grep -qx 42 answer.txt; then echo PASS answer; else echo FAIL answer; exit 1; fi"
OUTCOMES = {"PASS": "passed", "FAIL": "failed"}


class Fixed:
    """A model that answers with a command."""

    name = "fixed"

    def complete(
        self, messages: Sequence[ab.Message], tools: Sequence[ab.ToolSpec] = (), *, max_tokens: int | None = None
    ) -> ab.Reply:
        assert [message.role for message in messages] == ["system", "user"]
        return ab.Reply("echo 42 > answer.txt")


@ab.agent
def obeys(session: ab.Session, setup: ab.AgentSetup) -> str:
    assert setup.model is not None
    reply = setup.model.complete([ab.Message("system", "Write a command."), ab.Message("user", session.briefing.text)])
    session.run(reply.text)
    return reply.text


def words(output: ab.RunnerOutput) -> ab.TestResults:
    lines = [line.split() for line in output.stdout.decode().splitlines()]
    return ab.TestResults({name: OUTCOMES[word] for word, name in lines})


def one_file(workspace: ab.Workspace, options: Mapping[str, Any]) -> ab.ScorerVerdict:
    assert workspace.read("answer.txt") == b"42\n"
    return ab.ScorerVerdict("PASS" if workspace.changed == ("answer.txt",) else "FAIL", f"options {dict(options)}")


def counts(events: Sequence[ab.Event]) -> list[ab.Alert]:
    calls = [event.seq for event in events if event.type == "tool_call_started"]
    return [ab.Alert("calls", f"{len(calls)} calls", evidence=tuple(calls))]


def fails(events: Sequence[ab.Event]) -> list[ab.Alert]:
    raise LookupError("no events for me")


def renamed(state: Path) -> ab.SandboxBackend:
    return ab.adapted_backend("renamed", "bwrap", state, lambda spec: spec)


def one_by_one(attempts: Iterable[ab.AttemptCall], workers: int) -> None:
    for attempt in attempts:
        attempt()


@pytest.fixture
def task(tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AB_STATE", str(shared_state))
    folder = make_task(tmp_path / "tasks" / "tiny" / "answer")
    text = (folder / "task.yaml").read_text()
    (folder / "task.yaml").write_text(
        text.replace('"grep -qx 42 answer.txt", parser: exit_code', f'"{CHECK}", parser: words')
    )
    return folder


def test_every_kind_of_object_takes_part_and_is_recorded(task: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ab.run(
        task,
        agent=obeys,
        model=Fixed(),
        checks={"words": words},
        scorers=[one_file],
        monitors=[counts, fails],
        sandbox=renamed,
        executor=one_by_one,
    )
    (attempt,) = result.attempts
    assert attempt.result.passed
    assert (attempt.model.provider, attempt.model.name) == ("python", "fixed")
    assert [(scorer.name, scorer.verdict, scorer.required) for scorer in attempt.scorers] == [
        ("one_file", "PASS", False)
    ]
    folder = result.paths[0] / attempt.artifact_paths.task_dir
    planned = read_manifest(folder / "manifest.json").protocol_manifest.planned
    kinds = ["agent", "check", "scorer", "monitor", "monitor", "sandbox", "executor"]
    assert [plugin.kind for plugin in planned.plugins] == kinds
    assert planned.plugins[0] == PluginUse(kind="agent", name="obeys", distribution=None, version=None)
    assert planned.sandbox.backend == "renamed"
    events = [json.loads(line)["payload"] for line in (folder / "events.jsonl").read_text().splitlines()]
    alerts = {event["monitor"]: event for event in events if event.get("monitor") in {"counts", "fails"}}
    assert (alerts["counts"]["rule"], alerts["counts"]["detail"]) == ("calls", "1 calls")
    assert alerts["fails"]["detail"] == "the monitor raised LookupError: no events for me"
    assert result.runs[0].verify() == []
    assert recorded_request(RunDirectory.open(result.paths[0])).from_python[-1] == "model fixed"
    monkeypatch.setattr("agentbench.models.python_model.PYTHON_MODELS", {})
    with pytest.raises(ab.InputError, match="used model 'fixed', which was passed in from Python"):
        recorded_request(RunDirectory.open(result.paths[0]))


def test_sections_and_exporters_get_the_run(task: Path, tmp_path: Path) -> None:
    ab.register("check", "words", words)
    (run,) = ab.run(task, agent="noop").runs

    def verdicts(run: ab.Run) -> str:
        return f"## Verdicts\n\n{[attempt.result.passed for attempt in run.attempts]}"

    def breaks(run: ab.Run) -> str:
        raise KeyError("x")

    assert run.report(sections=[verdicts]).endswith("## Verdicts\n\n[False]\n")
    assert json.loads(run.report("json", sections=[verdicts]))["sections"] == ["## Verdicts\n\n[False]\n"]
    with pytest.raises(ab.InputError, match="report section 'breaks' raised KeyError"):
        run.report(sections=[breaks])
    run.export(lambda run, out: out.write_text(run.suite) and None, tmp_path / "suite.txt")
    assert (tmp_path / "suite.txt").read_text() == "tiny"
    run.export("junit", tmp_path / "junit.xml")
    assert "<testsuite" in (tmp_path / "junit.xml").read_text()
    with pytest.raises(ab.InputError, match="unknown format 'junti'"):
        run.export("junti", tmp_path / "other.xml")


def returns_early(attempts: Iterable[ab.AttemptCall], workers: int) -> None:
    """Make nothing."""


def knows_nothing(output: ab.RunnerOutput) -> ab.TestResults:
    raise RuntimeError("bug")


MISTAKES: dict[str, Callable[[Path], object]] = {
    "unknown kind of plug-in 'tool'": lambda _task: ab.register("tool", "x", print),
    "monitor must be a name, or a function": lambda task: ab.run(task, agent="noop", monitors=[lambda _events: []]),
    "no monitor 'mon' is installed": lambda task: ab.run(task, agent="noop", monitors=["mon"]),
    "no scorer 'sco' is installed": lambda task: ab.run(task, agent="noop", scorers=["sco"]),
    "no sandbox 'box' is installed": lambda task: ab.run(task, agent="noop", sandbox="box"),
    "unknown executor 'exe'": lambda task: ab.run(task, agent="noop", executor="exe"),
    "model must be a name, or an object": lambda task: ab.run(task, agent="noop", model=3),  # type: ignore[arg-type]
    "do not have agent obeys of this process": lambda task: ab.run(task, agent=obeys, executor="ray"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_wrong_objects_are_refused_before_anything_runs(message: str, task: Path) -> None:
    ab.register("check", "words", words)
    with pytest.raises(ab.InputError, match=message):
        MISTAKES[message](task)
    assert not Path("artifacts").exists()


def test_executor_that_makes_nothing_is_a_harness_error(task: Path) -> None:
    ab.register("check", "words", words)
    with pytest.raises(ab.HarnessError, match="'returns_early' returned before it had made all attempts"):
        ab.run(task, agent="noop", executor=returns_early)


def test_unknown_parser_is_a_problem_of_the_task(task: Path) -> None:
    text = (task / "task.yaml").read_text()
    (task / "task.yaml").write_text(text.replace("parser: words", "parser: junitt"))
    with pytest.raises(ab.ContractError) as caught:
        ab.load_task(task)
    assert "oracle.checks[0].parser: expected one of pytest, junit, exit_code" in caught.value.problems[0]
    assert "(did you mean `junit`?)" in caught.value.problems[0]
