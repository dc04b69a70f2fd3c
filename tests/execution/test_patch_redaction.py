"""Secrets in a patch: nothing recorded shows them, and what is graded is exact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import TASK, make_task

pytestmark = [pytest.mark.req("E-10a", "C-21"), pytest.mark.end_to_end]

TOKEN = "tok-5f0c2a9e77d1"
WITH_SECRET = (
    TASK.format(id="answer").replace("{timeout_sec", "{secrets: [PRIVATE_TOKEN], network_policy: none, timeout_sec")
    + 'setup: {commands: ["printf %s $PRIVATE_TOKEN | rev > $HOME/.token"]}\n'
)
"""Setup that leaves a plain secret is rejected; reversed, it is not recognised."""


def leaks(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]


def findings(folder: Path) -> list[dict[str, Any]]:
    lines = next(folder.glob("tasks/*/events.jsonl")).read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [event["payload"] for event in events if event["type"] == "integrity_finding"]


def folder_of(ran: Ran) -> Path:
    return Path(ran.json["run_dir"])


@pytest.mark.req("C-08a", "G-06a")
def test_declared_secret_in_a_patch_is_a_violation(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task", text=WITH_SECRET)
    own = Ab(ab.cwd, {**ab.env, "PRIVATE_TOKEN": TOKEN})
    ran = own.by_command(task, "echo 42 > answer.txt; echo \"T = '$(rev $HOME/.token)'\" > src/key.py; cat src/key.py")
    assert ran.code == 0, ran.stderr
    assert ran.record["result"]["failure_reason"] == "POLICY_VIOLATION", ran.record["termination"]
    assert ran.record["gates"]["G3"]["passed"]
    assert [tag["id"] for tag in ran.record["tags"]] == ["policy.secret"]
    folder = folder_of(ran)
    assert leaks(folder) == []
    assert "+T = '[redacted:PRIVATE_TOKEN:" in (folder / ran.record["patch"]["path"]).read_text()
    (finding,) = findings(folder)
    assert (finding["rule"], finding["severity"]) == ("secret.in_patch", "gate")
    assert "PRIVATE_TOKEN" in finding["detail"]
    assert own("verify", folder).code == 0
    replayed = own("replay", folder, "--json")
    assert "replaced by placeholders" in replayed.stdout


def test_host_key_in_a_patch_does_not_fail_the_attempt(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    own = Ab(ab.cwd, {**ab.env, "OPENROUTER_API_KEY": TOKEN})
    # The graded patch is exact: the check would fail on the placeholder.
    (task / "task.yaml").write_text(TASK.format(id="answer").replace("grep -qx 42", f"grep -qx {TOKEN}"))
    ran = own.by_command(task, f"echo {TOKEN} > answer.txt")
    assert ran.record["result"]["passed"], ran.record
    folder = folder_of(ran)
    assert leaks(folder) == []
    assert [(finding["rule"], finding["severity"]) for finding in findings(folder)] == [("secret.in_patch", "note")]
    assert own("verify", folder).code == 0


def test_patch_without_secrets_is_recorded_unchanged(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    own = Ab(ab.cwd, {**ab.env, "OPENROUTER_API_KEY": TOKEN})
    shaped = "sk-or-v1-" + "a" * 40
    ran = own.by_command(task, f"echo 42 > answer.txt; echo {shaped} > src/fixture.txt")
    assert ran.record["result"]["passed"]
    folder = folder_of(ran)
    assert f"+{shaped}" in (folder / ran.record["patch"]["path"]).read_text()
    assert own("replay", folder).code == 0
