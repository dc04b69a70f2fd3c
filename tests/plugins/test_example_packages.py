"""The example of every kind, installed beside a built wheel of AgentBench in an environment of its own, and used by `ab`."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentbench.plugins.kinds import Kind
from tests.execution.conftest import shared_state
from tests.execution.tasks import make_task
from tests.session_state import built_distributions

__all__ = ["shared_state"]
pytestmark = pytest.mark.end_to_end
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "plugins"
CHECK = "if grep -qx 42 answer.txt; then echo ok 1 - answer; else echo not ok 1 - answer; fi; echo 1..1; grep -qx 42 answer.txt"
ANSWERS = r"""
answers:
  - text: "```bash\ngit log; echo '42' > answer.txt; echo '# TODO' >> src/mod.py\n```"
  - text: "I am done."
"""


class Environment:
    """A virtual environment with AgentBench and the examples."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "AB_STATE": str(state), "AGENTBENCH_PACE_SEC": "0", "PYTHONNOUSERSITE": "1"}
        self.env.pop("PYTHONPATH", None)

    def run(self, program: str | Path, *arguments: str | Path, cwd: Path) -> str:
        done = subprocess.run([program, *arguments], cwd=cwd, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def ab(self, *arguments: str | Path, cwd: Path) -> str:
        return self.run(self.folder / "bin" / "ab", *arguments, cwd=cwd)


@pytest.fixture
def environment(tmp_path: Path, shared_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    uv = shutil.which("uv") or str(ROOT / ".bootstrap" / "uv" / "bin" / "uv")
    environment = Environment(tmp_path / "env", shared_state)
    environment.run(uv, "venv", "--quiet", "--python", sys.executable, environment.folder, cwd=tmp_path)
    (wheel,) = built_distributions(tmp_path_factory).glob("*.whl")
    sources = [shutil.copytree(EXAMPLES / kind, tmp_path / "examples" / kind) for kind in Kind]
    python = environment.folder / "bin" / "python"
    environment.run(uv, "pip", "install", "--quiet", "--python", python, wheel, "pytest", *sources, cwd=tmp_path)
    return environment


def test_example_of_every_kind_works_in_an_environment_of_its_own(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    work = tmp_path / "work"
    listed = json.loads(environment.ab("plugins", "--json", cwd=work))["plugins"]
    assert {(plugin["kind"], plugin["state"], plugin["version"]) for plugin in listed} == {
        (str(kind), "ok", "0.1.0") for kind in Kind
    }
    own_tests = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-c", os.devnull)
    environment.run(environment.folder / "bin" / "python", *own_tests, tmp_path / "examples", cwd=work)
    run = _run_with_all_kinds(environment, work)
    report = environment.ab("report", "summary", run, "--section", "slowest", cwd=work)
    assert "## Slowest attempts\n\n| task | repeat | whole attempt | agent |" in report
    environment.ab("export-run", run, "--format", "sqlite", "--out", "results.db", cwd=work)
    with closing(sqlite3.connect(work / "results.db")) as database:
        assert database.execute("SELECT task_id, passed FROM attempts").fetchall() == [("answer", 1)]
    _import_exercise(environment, work)


def _run_with_all_kinds(environment: Environment, work: Path) -> Path:
    """Run an attempt whose agent, model, check, scorer, sandbox, executor and monitor are examples."""
    folder = make_task(work / "tasks" / "tiny" / "answer")
    text = (folder / "task.yaml").read_text()
    text = text.replace('"grep -qx 42 answer.txt", parser: exit_code', f'"{CHECK}", parser: tap')
    (folder / "task.yaml").write_text(text + "scorers: [{name: todos, type: no_todos, words: [TODO]}]\n")
    (work / "answers.yaml").write_text(ANSWERS)
    options = ["--agent", "bash_loop", "--model", "scripted:answers.yaml", "--sandbox", "airgap", "--executor", "paced"]
    printed = environment.ab("run-task", "--task", folder, *options, "--monitor", "git_history", "--json", cwd=work)
    result: dict[str, Any] = json.loads(printed)
    (attempt,) = result["attempts"]
    assert attempt["result"]["passed"], attempt["result"]
    assert attempt["termination"]["rationale"] == "I am done."
    assert [(scorer["name"], scorer["verdict"]) for scorer in attempt["scorers"]] == [("todos", "FAIL")]
    run = Path(result["run_dir"])
    run = run if run.is_absolute() else work / run
    log = (run / attempt["artifact_paths"]["task_dir"] / "events.jsonl").read_text()
    events = [json.loads(line)["payload"] for line in log.splitlines()]
    assert [event["rule"] for event in events if event.get("monitor") == "git_history"] == ["log"]
    manifest = json.loads((run / attempt["artifact_paths"]["task_dir"] / "manifest.json").read_text())
    planned = manifest["protocol_manifest"]["planned"]
    used = {(plugin["kind"], plugin["distribution"], plugin["version"]) for plugin in planned["plugins"]}
    names = {"agent": "bash_loop", "check": "tap", "scorer": "no_todos", "sandbox": "airgap", "executor": "paced"}
    names["monitor"] = "git_history"
    assert used == {(kind, f"agentbench_{name}", "0.1.0") for kind, name in names.items()}
    assert environment.ab("verify", run, cwd=work).startswith("VERIFIED")
    return run


def _import_exercise(environment: Environment, work: Path) -> None:
    exercise = work / "leap"
    config = {"files": {"solution": ["leap.py"], "test": ["leap_test.py"], "example": [".meta/example.py"]}}
    for name, text in {
        "leap.py": "def leap_year(year):\n    pass\n",
        "leap_test.py": "from leap import leap_year\n\ndef test_2024():\n    assert leap_year(2024)\n",
        ".meta/example.py": "def leap_year(year):\n    return year % 4 == 0\n",
        ".meta/config.json": json.dumps(config),
        ".docs/instructions.md": "Say whether a year is a leap year.\n",
    }.items():
        (exercise / name).parent.mkdir(parents=True, exist_ok=True)
        (exercise / name).write_text(text)
    created = json.loads(environment.ab("task", "import", "exercism", exercise, "--json", cwd=work))
    assert [task["task_id"] for task in created["tasks"]] == ["leap"]
    environment.ab("task", "check", created["tasks"][0]["folder"], cwd=work)
