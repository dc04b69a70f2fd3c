"""Scorers, judge and gates of one attempt, as a user gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.conftest import Ab
from tests.run.tasks import make_task

SCORERS = """
scorers:
  - {name: answer, type: command, command: "grep -qx 42 answer.txt"}
  - {name: quiet, type: command, command: "sleep 1; test ! -e later.txt", timeout_s: 20}
  - {name: small, type: max_files_changed, limit: 1}
  - {name: notes, type: file_exists, path: notes/extra.txt}
  - {name: scope, type: allowed_paths, patterns: ["answer.txt"], required: false}
  - {name: skips, type: no_new_skips}
  - {name: tone, type: llm_judge, rubric: "be kind"}
"""


@pytest.mark.req("G-10", "G-11", "G-13")
def test_scorers_see_the_live_workspace_when_the_agent_is_dead(tmp_path: Path, ab: Ab) -> None:
    task = make_task(tmp_path / "tasks" / "t", more=SCORERS)
    line = "echo 42 >answer.txt; mkdir notes; echo hi >notes/extra.txt; (sleep 0.5; touch later.txt) >/dev/null 2>&1 &"
    record = ab.by_command(task, line).record
    rows = {one["name"]: (one["verdict"], one["required"], one["score"]) for one in record["scorers"]}
    assert rows == {
        "answer": ("PASS", True, 1.0),
        "quiet": ("PASS", True, 1.0),
        "small": ("FAIL", True, 0.0),
        "notes": ("PASS", True, 1.0),
        "scope": ("FAIL", False, 0.0),
        "skips": ("N/A", False, 0.0),
        "tone": ("N/A", False, 0.0),
    }
    assert (record["workspace_verdict"], record["mean_score"]) == ("FAIL", 0.6)
    assert record["result"]["passed"] is True
    assert record["judge"] is None
