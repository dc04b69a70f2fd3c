"""Evidence files that are derived from the log of an attempt."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.reasons import Outcome
from agentbench.execution.attempt.evidence_files import _from_events
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.trace import events
from agentbench.trace.events import AcceptanceCheck, Excerpt, Payload, ToolCallFinished

pytestmark = pytest.mark.component


def finished(step: str, stdout: str) -> events.TestsFinished:
    return events.TestsFinished(
        step=step, outcome=Outcome.FAIL, exit_code=1, timed_out=False, duration_us=1, stdout=Excerpt(text=stdout),
        stderr=Excerpt(text=f"{step} stderr"), why="decided",
    )  # fmt: skip


def written(tmp_path: Path, *payloads: Payload) -> Path:
    folder = AttemptFolder(tmp_path, "tasks/t", "01A", "t", 1, 1)
    folder.make()
    with folder.open_log() as log:
        for payload in payloads:
            log.append(payload)
    _from_events(folder, folder.path / "events.jsonl")
    return folder.path / "logs"


def test_output_of_a_program_is_in_files_of_its_own(tmp_path: Path) -> None:
    def ran(call: str, out: str, err: str) -> ToolCallFinished:
        return ToolCallFinished(
            call_id=call, tool="x", ok=True, duration_us=1, stdout=Excerpt(text=out), stderr=Excerpt(text=err)
        )

    logs = written(tmp_path, ran("h1", "first\n", "why\n"), ran("c1", "a tool\n", ""), ran("h2", "second\n", ""))
    assert (logs / "agent_stdout.txt").read_text() == "first\nsecond\n"
    assert (logs / "agent_stderr.txt").read_text() == "why\n"


def test_agents_without_a_program_have_no_output_files(tmp_path: Path) -> None:
    logs = written(tmp_path, ToolCallFinished(call_id="c1", tool="run", ok=True, duration_us=1))
    assert list(logs.iterdir()) == []


def test_failures_of_real_tests_come_before_runs_with_decoys(tmp_path: Path) -> None:
    decided = AcceptanceCheck(
        check_id="unit", layer="unit", mandatory=True, outcome=Outcome.FAIL, why="", command="pytest", started_at="x",
        diagnostics=Excerpt(text="t::even: failed\n    assert 3 == 2.5\n"),
    )  # fmt: skip
    logs = written(
        tmp_path,
        events.TestsStarted(step="unit", command="pytest -q", ceiling_us=1),
        finished("unit~1", "decoys one"),
        finished("unit~2", "decoys two"),
        finished("unit", "decoys one"),
        decided,
        finished("script", "plain output"),
    )
    text = (logs / "checks_stdout.txt").read_text()
    parts = ["[unit: decided]", "assert 3 == 2.5", "decoy tests, which fail as expected", "[unit~1", "decoys one"]
    parts += ["[unit~2", "decoys two", "[script", "plain output"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert text.count("decoys one") == 1
    assert (logs / "checks_stderr.txt").read_text() == "unit~1 stderr\nunit~2 stderr\nscript stderr\n"
