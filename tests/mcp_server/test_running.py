"""`ab mcp --allow-runs`: clients start runs within limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import agentbench as ab
from agentbench.mcp_server.launcher import Job, Launcher, Order, RunLimits
from tests.mcp_server.conftest import Project, Session, connected
from tests.reports.runs import record, write_planned_run

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def session(project: Project) -> Iterator[Session]:
    variants = project.folder / "configs" / "variants"
    variants.mkdir(parents=True)
    (variants / "sleeps.yaml").write_text("name: sleeps\ncommand: sleep 600\n")
    arguments = ["--allow-runs", "--max-attempts", "4", "--max-usd", "3", "--model", "scripted:allowed.yaml"]
    with connected(project, *arguments) as session:
        yield session


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"agent": "nop"}, "did you mean `noop`"),
        ({"agent": "command"}, "needs files or a command"),
        ({"variant": "../x"}, "is not the name of a variant"),
        ({"variant": "evil.yaml"}, "is not the name of a variant"),
        ({"agent": "llm_v0", "model": "scripted:/etc/passwd"}, "allowed models: scripted:allowed.yaml"),
        ({"agent": "noop", "suite": "../tasks/tiny"}, "invalid suite name"),
        ({"agent": "noop", "tasks": ["three"]}, "no task 'three' in suite tiny"),
        ({"agent": "noop", "repeats": 2}, "6 attempts asked for"),
        ({}, "give either agent or variant"),
    ],
)
def test_run_outside_the_limits_is_refused(session: Session, arguments: dict[str, object], message: str) -> None:
    assert message in session.error("start_run", **{"suite": "tiny", **arguments})


def test_started_run_can_be_followed_read_and_counts(session: Session, project: Project) -> None:
    started = session.call("start_run", suite="tiny", agent="noop", tasks=["two"])
    ended = started
    while ended["state"] == "running":
        ended = session.call("run_progress", number=started["number"], wait_sec=20)
    assert ended["state"] == "finished", ended
    assert ended["finished"] == 1
    assert ended["verdicts"][0].startswith("two: FAIL TESTS_FAILED")
    (name,) = ended["runs"]
    assert session.call("read_run", run=name)["headline"].startswith("0 of 1")
    assert (project.folder / "runs" / name / "run.json").is_file()
    # Attempts count for the life of the server.
    assert "3 of 4 left" in session.error("start_run", suite="tiny", agent="noop", repeats=2)


def test_run_with_missing_results_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_planned_run(tmp_path / "run", ["one", "two"], [record("one")])
    monkeypatch.setattr(ab, "run", lambda *_args, **_options: SimpleNamespace(paths=(run,)))
    launcher = Launcher(RunLimits(max_attempts=2, max_usd=1.0), tmp_path, tmp_path)
    job = Job(Order(1, (), "noop", None, None, 1))
    launcher._make(job)
    assert job.state == "incomplete"


def test_stopped_run_is_recorded_as_interrupted(session: Session) -> None:
    started = session.call("start_run", suite="tiny", variant="sleeps", tasks=["one"])
    session.call("run_progress", number=started["number"], wait_sec=2)
    stopped = session.call("stop_run", number=started["number"])
    while stopped["state"] == "running":
        stopped = session.call("run_progress", number=started["number"], wait_sec=20)
    assert stopped["state"] == "interrupted"
    assert "2 of 4 left" in session.error("start_run", suite="tiny", agent="noop"), "the server goes on"
