"""Attempts with a real small model. Optional: set AB_SMALL_MODEL; docs/how-to/bring-your-agent.md says how to serve one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task

MODEL = os.environ.get("AB_SMALL_MODEL", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.req("T-06"),
    pytest.mark.skipif(
        not MODEL, reason="set AB_SMALL_MODEL=NAME@http://127.0.0.1:PORT/v1 (docs/how-to/bring-your-agent.md)"
    ),
    pytest.mark.end_to_end,
]


@pytest.mark.parametrize("agent", ["llm_v0", "subagents"])
def test_attempt_with_a_real_model_verifies(ab: Ab, tmp_path: Path, agent: str) -> None:
    text = TASK.format(id="answer").replace("timeout_sec: 120,", "timeout_sec: 300,")
    task = make_task(tmp_path / "task", text=text)
    options = ("--agent", agent, "--model", MODEL, "--max-steps", "6")
    ran = ab("run-task", "--task", task, "--json", *options, timeout=800)
    assert ran.code == 0, ran.stderr
    assert ran.record["usage"]["completion_tokens"] > 0
    assert ran.record["run_status"] in {"success", "failure"}
    folder = Path(ran.json["run_dir"])
    events = [json.loads(line) for line in next(folder.glob("tasks/*/events.jsonl")).read_text().splitlines()]
    assert [event for event in events if event["type"] == "llm_response" and event["payload"]["status"] == "ok"]
    assert ab("verify", folder).code == 0
