"""Durations of the attempt, its tools, commands and checks, and that their sums match the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, TASK, make_task

pytestmark = pytest.mark.end_to_end

US = 1_000_000


@pytest.mark.req("M-08")
def test_durations_are_recorded_at_every_level(ab: Ab, tmp_path: Path) -> None:
    text = TASK.format(id="answer").replace("grep -qx 42", "sleep 0.3; grep -qx 42")
    steps = [{"run": {"command": "sleep 0.4"}}, {"apply_patch": {"unified_diff": PATCH}}, {"run": {"command": "true"}}]
    (tmp_path / "script.yaml").write_text(yaml.safe_dump({"steps": steps}))
    ran = ab.run_task(make_task(tmp_path / "t", text=text), "--agent", "scripted", "--script", tmp_path / "script.yaml")
    record = ran.record
    log = Path(ran.json["run_dir"]) / record["artifact_paths"]["task_dir"] / "events.jsonl"
    events = [json.loads(line) for line in (ab.cwd / log).read_text().splitlines()]
    commands = [event["payload"]["duration_us"] for event in events if event["type"] == "tool_call_finished"]
    assert len(commands) == 3
    assert commands[0] >= 400_000
    usage = record["usage"]
    assert usage["tool_sec"] == pytest.approx(sum(commands) / US)
    assert usage["wall_sec"] >= usage["tool_sec"]
    assert record["duration_sec"] >= usage["wall_sec"] + usage["check_sec"]
    (check,) = record["checks"]
    (decided,) = [event["payload"] for event in events if event["type"] == "acceptance_check"]
    assert check["duration_sec"] == pytest.approx(decided["duration_us"] / US)
    assert check["duration_sec"] >= 0.3
    assert usage["check_sec"] >= check["duration_sec"]
    assert check["ceiling_sec"] == 120
    # By the log's clock too: no event is outside the attempt.
    assert (events[-1]["t"] - events[0]["t"]) / US <= record["duration_sec"] + 1
