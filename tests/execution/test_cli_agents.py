"""Real third-party programs, installed and run as a user would, with a scripted model.

Slow, and they need the package registries: set AB_CLI_AGENTS=1 (and AB_STATE, so that what is installed is kept).
AB_CLI_SANDBOX=docker runs them in Docker.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import TASK, make_task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.req("T-05"),
    pytest.mark.skipif(
        "AB_CLI_AGENTS" not in os.environ, reason="set AB_CLI_AGENTS=1: installs programs, takes minutes"
    ),
    pytest.mark.end_to_end,
]

SMALL = "timeout_sec: 120, tool_timeout_sec: 60, mem_limit_mb: 256, disk_limit_mb: 64, pids_limit: 64"
ROOMY = "timeout_sec: 300, mem_limit_mb: 2048, disk_limit_mb: 512, pids_limit: 256"
GRADED = "test ! -e /opt/agent-cli && grep -qx 42 answer.txt"
"""Grading must not see the program."""


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": "I correct the file.", "tool_calls": [{"name": name, "arguments": arguments}]}


EDIT = "sed -i s/41/42/ answer.txt"
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "mini-swe-agent": [
        calls("bash", command=EDIT),
        calls("bash", command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ],
    "claude-code": [calls("Bash", command=EDIT, description="correct the file"), {"text": "Done."}],
    "codex": [calls("exec_command", cmd=EDIT), {"text": "Done."}],
    "aider": [{"text": "Here:\n\nanswer.txt\n```\n<<<<<<< SEARCH\n41\n=======\n42\n>>>>>>> REPLACE\n```\n"}],
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    text = TASK.format(id="answer").replace(SMALL, ROOMY).replace("grep -qx 42 answer.txt", GRADED)
    return make_task(tmp_path / "task", text=text)


def attempt(ab: Ab, task: Path, agent: str, *more: str | Path) -> Ran:
    kept = {"AB_STATE": os.environ["AB_STATE"]} if "AB_STATE" in os.environ else {}
    docker_host = {"DOCKER_HOST": os.environ["DOCKER_HOST"]} if "DOCKER_HOST" in os.environ else {}
    arguments = ("run-task", "--task", task, "--json", "--agent", agent, *more)
    sandbox = os.environ.get("AB_CLI_SANDBOX", "bwrap")
    return ab(*arguments, "--sandbox", sandbox, env={**kept, **docker_host}, timeout=1400)


@pytest.mark.parametrize("name", list(ANSWERS))
def test_real_program_solves_a_task_through_the_gateway(ab: Ab, task: Path, tmp_path: Path, name: str) -> None:
    script = tmp_path / "answers.yaml"
    script.write_text(yaml.safe_dump({"answers": ANSWERS[name], "after": "repeat"}))
    ran = attempt(ab, task, f"cli:{name}", "--model", f"scripted:{script}")
    record = ran.record
    assert record["result"]["passed"], (record, ran.stderr)
    assert record["observability"] == "gateway"
    assert record["usage"]["prompt_tokens"] > 0
    folder = Path(ran.json["run_dir"])
    manifest = json.loads(next(folder.glob("tasks/*/manifest.json")).read_text())
    program = manifest["protocol_manifest"]["observed"]["agent_program"]
    assert program["profile"] == name
    assert program["digest"].startswith("sha256:")
    patch = next(folder.glob("tasks/*/diffs/final.patch")).read_text()
    assert [line for line in patch.splitlines() if line.startswith("diff --git")] == [
        "diff --git a/answer.txt b/answer.txt"
    ]
    # Same task and environment as for an agent that is not a program.
    other = attempt(ab, task, "noop").record
    assert (record["contract_id"], record["env_digest"]) == (other["contract_id"], other["env_digest"])
    assert ab("verify", folder).code == 0


def test_inspect_solver_solves_a_task_through_the_gateway(ab: Ab, task: Path, tmp_path: Path) -> None:
    solvers = tmp_path / "solvers"
    solvers.mkdir()
    (solvers / "mine.py").write_text(
        "from inspect_ai.agent import react\nfrom inspect_ai.tool import bash\n\n\n"
        "def fixer():\n    return react(tools=[bash(timeout=60)])\n"
    )
    script = tmp_path / "answers.yaml"
    answers = [calls("bash", command=EDIT), calls("submit", answer="done")]
    script.write_text(yaml.safe_dump({"answers": answers}))
    ran = attempt(ab, task, "inspect:mine:fixer", "--agent-files", solvers, "--model", f"scripted:{script}")
    record = ran.record
    assert record["result"]["passed"], (record, ran.stderr)
    assert (record["observability"], record["usage"]["model_requests"]) == ("gateway", 2)
    folder = Path(ran.json["run_dir"])
    manifest = json.loads(next(folder.glob("tasks/*/manifest.json")).read_text())
    assert manifest["protocol_manifest"]["observed"]["agent_program"]["profile"] == "inspect"
    assert ab("verify", folder).code == 0


@pytest.mark.skipif(shutil.which("tmux") is None, reason="Terminus works in tmux, which is not installed")
def test_agent_of_harbor_solves_a_task_through_the_gateway(ab: Ab, task: Path, tmp_path: Path) -> None:
    text = (task / "task.yaml").read_text().replace("environment: {", 'environment: {python: "3.12", ')
    (task / "task.yaml").write_text(text)
    script = tmp_path / "answers.yaml"
    keys = {"keystrokes": f"{EDIT}\n", "duration": 1.0}
    turns = [([keys], False), ([], True), ([], True)]
    answers = [
        {"text": json.dumps({"analysis": "a", "plan": "p", "commands": commands, "task_complete": done})}
        for commands, done in turns
    ]
    script.write_text(yaml.safe_dump({"answers": answers}))
    ran = attempt(ab, task, "harbor:terminus-2", "--model", f"scripted:{script}")
    assert ran.record["result"]["passed"], (ran.record, ran.stderr)
    assert (ran.record["observability"], ran.record["usage"]["model_requests"]) == ("gateway", 3)
    assert ab("verify", ran.json["run_dir"]).code == 0
