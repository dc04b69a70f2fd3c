"""Runs and gradings from Python, as a notebook makes them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import agentbench as ab
from agentbench.execution.study import Study
from agentbench.record.run_state import run_state
from tests.execution.conftest import shared_state
from tests.execution.tasks import make_suite

__all__ = ["shared_state"]

pytestmark = pytest.mark.end_to_end
SOLUTION = "echo 42 > answer.txt"


@ab.agent
def writes_the_answer(session: ab.Session, setup: ab.AgentSetup) -> str:
    assert setup.model is None
    result = session.run(SOLUTION)
    return "wrote the answer" if result.ok else "could not write"


@ab.agent
def crashes(session: ab.Session, setup: ab.AgentSetup) -> str:
    raise RuntimeError(f"{setup.task_id} is too hard after {session.remaining.tool_calls}")


@pytest.fixture
def tasks(tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AB_STATE", str(shared_state))
    return make_suite(tmp_path / "tasks", "one", "two")


def test_function_is_an_agent_and_events_show_the_progress(tasks: Path) -> None:
    events: list[ab.ProgressEvent] = []
    result = ab.run(suite="tiny", tasks_dir=tasks, agent=writes_the_answer, workers=2, on_event=events.append)
    assert [attempt.result.passed for attempt in result.attempts] == [True, True]
    assert {attempt.agent for attempt in result.attempts} == {"writes_the_answer"}
    assert result.attempts[0].termination.rationale == "wrote the answer"
    assert events[0] == ab.RunPlanned(2)
    finished = [event.attempt for event in events if isinstance(event, ab.AttemptFinished)]
    assert {attempt.attempt_id for attempt in finished} == {attempt.attempt_id for attempt in result.attempts}
    phases = {event.phase for event in events if isinstance(event, ab.PhaseStarted)}
    assert "agent" in phases
    assert result.runs[0].verify() == []
    assert result.runs[0].headline.startswith("2 of 2")


def test_exception_of_a_function_is_the_agents_crash(tasks: Path) -> None:
    (attempt,) = ab.run(tasks / "tiny" / "one", agent=crashes).attempts
    assert attempt.termination.code == "agent_crashed"
    assert "RuntimeError: one is too hard" in attempt.termination.rationale
    assert not attempt.result.passed


def test_exception_of_on_event_does_not_end_the_run(tasks: Path) -> None:
    def fails(event: ab.ProgressEvent) -> None:
        raise ValueError(event)

    with pytest.warns(RuntimeWarning, match="on_event raised ValueError"):
        result = ab.run(tasks / "tiny" / "one", agent="noop", on_event=fails)
    assert len(result.attempts) == 1


def test_run_interrupted_after_its_last_attempt_is_finished(tasks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = Study.execute

    def interrupted(study: Study) -> None:
        execute(study)
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ab.run(tasks / "tiny" / "one", agent="noop", out="runs")
    (path,) = Path("runs").iterdir()
    assert run_state(path) == "finished"


def test_attempts_are_tables(tasks: Path) -> None:
    (run,) = ab.run(tasks / "tiny" / "one", agent="noop", repeats=2).runs
    rows = run.rows()
    assert [row["repeat"] for row in rows] == [1, 2]
    columns = list(rows[0])
    assert list(run.to_pandas().columns) == columns
    assert run.to_polars().columns == columns
    assert run.to_arrow().column_names == columns
    assert run.to_polars()["passed"].to_list() == run.to_pandas()["passed"].tolist() == [False, False]
    assert ab.open_run(run.path).report("csv").count("\n") == 3
    assert ab.open_run("latest").run_id == run.run_id


MISTAKES: dict[str, Callable[[Path], object]] = {
    "give either tasks or suite": lambda tasks: ab.run(tasks_dir=tasks, agent="noop"),
    "unknown agent 'nop'": lambda tasks: ab.run(suite="tiny", tasks_dir=tasks, agent="nop"),
    "no suite `tinny`": lambda tasks: ab.run(suite="tinny", tasks_dir=tasks, agent="noop"),
    "tasks/nope does not exist": lambda _: ab.run("tasks/nope", agent="noop"),
    "no tasks given": lambda tasks: ab.run([], tasks_dir=tasks, agent="noop"),
    "must be a name, or a function": lambda tasks: ab.run(tasks / "tiny", agent=lambda _setup: None),  # type: ignore[arg-type]
    "three": lambda tasks: ab.load_task(tasks / "tiny" / "three"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_refused_before_anything_runs(message: str, tasks: Path) -> None:
    with pytest.raises(ab.InputError, match=message):
        MISTAKES[message](tasks)
    assert not Path("artifacts").exists()


def test_function_cannot_replace_a_bundled_agent(tasks: Path) -> None:
    @ab.agent
    def noop(session: ab.Session, setup: ab.AgentSetup) -> None: ...

    with pytest.raises(ab.InputError, match="there is a built-in agent 'noop'"):
        ab.run(suite="tiny", tasks_dir=tasks, agent=noop)


def test_import_loads_only_the_standard_library() -> None:
    code = "import sys; import agentbench; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith(("agentbench.", "click", "pydantic", "numpy"))] == []


def test_every_public_name_can_be_loaded_and_listed() -> None:
    assert sorted(ab.__all__) == ab.__all__
    assert set(ab.__all__) <= set(dir(ab))
    for name in ab.__all__:
        assert getattr(ab, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'runs_'"):
        ab.runs_  # noqa: B018
