"""The GitHub Action and the other CI examples: valid, and their steps executed with a real `ab`.

A small runner plays GitHub: it evaluates expressions, sets outputs and executes `run` steps as the runner's bash does. `gh` and `sudo`
are stand-ins that note their calls; actions of others (`uses`) are not executed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.execution.conftest import shared_state
from tests.execution.preloaded import write_preloaded_program
from tests.execution.tasks import make_suite

__all__ = ["shared_state"]

pytestmark = pytest.mark.end_to_end
ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "docs" / "examples"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
NOTED = """#!/bin/sh
printf '%s\\n' "$(basename "$0") $*" >> "$NOTES"
case "$0 $*" in *gh*--paginate*) cat "$COMMENT_IDS" ;; esac
"""


@dataclass
class Runner:
    """Executes the steps of the action in a folder."""

    folder: Path
    env: Mapping[str, str]
    event: str = "pull_request"
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, **given: str) -> int:
        """Run every step and return the exit code of the job."""
        defaults = {name: spec.get("default", "") for name, spec in ACTION["inputs"].items()}
        context = {"inputs": {**defaults, **given}, "github": self._github(), "runner": {"os": "Linux"}}
        code = 0
        self.outputs.clear()
        for step in ACTION["runs"]["steps"]:
            condition = step.get("if", "success()")
            if "uses" in step or (code and "always()" not in condition) or not self._holds(condition, context):
                continue
            code = self._execute(step, context) or code
        return code

    def _github(self) -> dict[str, Any]:
        pull_request = {"number": 7}
        return {"token": "t", "event_name": self.event, "repository": "o/r", "event": {"pull_request": pull_request}}

    def _holds(self, condition: str, context: Mapping[str, Any]) -> bool:
        text = condition.replace("always()", "True").replace("success()", "True")
        text = re.sub(
            r"(?<!')\b(?:inputs|steps|github)\.[\w.-]+", lambda name: repr(self._value(name[0], context)), text
        )
        return bool(eval(text.replace("&&", " and "), {"__builtins__": {}}))  # noqa: S307 - a condition of our own file

    def _value(self, name: str, context: Mapping[str, Any]) -> str:
        value: Any = {**context, "steps": {key: {"outputs": outputs} for key, outputs in self.outputs.items()}}
        for part in name.strip().split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return str(value)

    def _execute(self, step: Mapping[str, Any], context: Mapping[str, Any]) -> int:
        output, summary = self.folder / ".output", self.folder / ".summary"
        output.write_text("")
        env = {
            name: EXPRESSION.sub(lambda found: self._value(found[1], context), str(value))
            for name, value in step.get("env", {}).items()
        }
        env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary), "RUNNER_TEMP": str(self.folder)}
        assert "${{" not in step["run"], "an expression in a script would be executed as code"
        script = self.folder / ".step.sh"
        script.write_text(step["run"])
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.folder,
            env={**self.env, **env},
            check=False,
            timeout=900,
        )
        if "id" in step:
            pairs = [line.partition("=") for line in output.read_text().splitlines()]
            self.outputs[step["id"]] = {name: value for name, _, value in pairs}
        return done.returncode


@dataclass(frozen=True)
class Job:
    """A repository with a baseline, as a push has left it."""

    runner: Runner
    notes: Path
    ids: Path

    def calls(self) -> list[str]:
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.notes.unlink(missing_ok=True)
        return lines


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Job:
    folder = tmp_path_factory.mktemp("action")
    make_suite(folder / "tasks", "one", "two")
    (folder / "gate.yaml").write_text("max_drop: 0.05\n")
    tools = folder / "bin"
    tools.mkdir()
    write_preloaded_program(tools)
    for name in ("sudo", "gh", "python"):
        (tools / name).write_text(NOTED)
        (tools / name).chmod(0o755)
    (folder / "ids").touch()
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "AB_STATE": str(shared_state)}
    env |= {"NOTES": str(folder / "notes"), "COMMENT_IDS": str(folder / "ids")}
    job = Job(Runner(folder, env, event="push"), folder / "notes", folder / "ids")
    args = "--agent command --agent-command 'test -e src && echo 42 > answer.txt'"
    assert job.runner.run(suite="tiny", args=args, **{"run-dir": "baseline"}) == 0
    assert job.runner.outputs["run"] == {"run": "baseline"}
    calls = job.calls()
    assert not [call for call in calls if call.startswith("gh")], "a push has no pull request"
    assert any("apt-get install" in call for call in calls)
    assert "python -m pip install --quiet agentbench-harness" in calls
    job.runner.event = "pull_request"
    return job


@pytest.fixture(scope="module")
def worse(job: Job) -> tuple[int, list[str]]:
    """The exit code and the calls of a pull request whose agent does nothing."""
    code = job.runner.run(suite="tiny", args="--agent noop", baseline="baseline", gate="gate.yaml")
    return code, job.calls()


def folder_of(job: Job, output: str) -> Path:
    return job.runner.folder / job.runner.outputs["report"][output]


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed; gh has it built in")
def test_only_own_comments_are_replaced() -> None:
    (step,) = [step for step in ACTION["runs"]["steps"] if "--paginate" in step.get("run", "")]
    (query,) = re.findall(r"--jq '(\.\[\].*?)'", step["run"])
    comments = [
        {"id": number, "body": body, "user": {"login": login, "type": kind}}
        for number, (body, login, kind) in enumerate(
            [("M of a stranger", "eve", "User"), ("other", "ada", "User"), ("M", "ada", "User"), ("M", "x[bot]", "Bot")]
        )
    ]
    env = {**os.environ, "MARKER": "M", "AUTHOR": "ada"}
    done = subprocess.run(
        ["jq", query], input=json.dumps(comments), env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "3"]


def test_worse_agent_fails_the_job_and_gets_a_comment(job: Job, worse: tuple[int, list[str]]) -> None:
    code, calls = worse
    assert code == 1
    assert job.runner.outputs["report"]["exit-code"] == "1"
    report = job.runner.folder / "agentbench-report"
    comment = (report / "comment.md").read_text()
    assert comment.startswith("<!-- agentbench: tiny -->")
    assert "**GATE FAILS**" in comment
    assert comment in (job.runner.folder / ".summary").read_text()
    assert (report / "junit.xml").read_text().count("<failure") == 2
    assert (report / "page" / "index.html").is_file()
    (run,) = json.loads((folder_of(job, "sarif-file")).read_text())["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "error"]
    user, listed, posted = (call for call in calls if call.startswith("gh"))
    assert user == "gh api user --jq .login"
    assert "repos/o/r/issues/7/comments" in listed
    assert "--method POST repos/o/r/issues/7/comments --field body=@agentbench-report/comment.md" in posted


def test_same_agent_without_comment_holds_and_replaces_nothing(job: Job, worse: tuple[int, list[str]]) -> None:
    args = "--agent reference"
    given = {"run-dir": "same", "report-dir": "report-same", "comment": "false"}
    assert job.runner.run(suite="tiny", args=args, baseline="baseline", gate="gate.yaml", **given) == 0
    assert "**GATE HOLDS**" in (job.runner.folder / "report-same" / "comment.md").read_text()
    assert not [call for call in job.calls() if call.startswith("gh")]


def test_missing_baseline_leaves_the_gate_undecided_and_comment_is_replaced(job: Job) -> None:
    job.ids.write_text("123\n")
    given = {"run-dir": "alone", "report-dir": "report-alone"}
    code = job.runner.run(suite="tiny", args="--agent noop --task one", baseline="nowhere", gate="gate.yaml", **given)
    assert code == 2
    assert any("--method PATCH repos/o/r/issues/comments/123" in call for call in job.calls())


def test_plain_script_exits_with_the_code_of_the_gate(job: Job) -> None:
    folder = job.runner.folder
    shutil.copy(EXAMPLES / "ci.sh", folder / "ci.sh")
    assert plain_script(job, "baseline") == (1, "")
    assert "**GATE FAILS**" in (folder / "report" / "comment.md").read_text()
    assert (folder / "report" / "page" / "index.html").is_file()
    # A second run would be moved into the first, which would be reported again.
    assert plain_script(job, "baseline") == (2, "candidate/ exists: remove it first")
    shutil.rmtree(folder / "candidate")
    undecided = plain_script(job, "nowhere", "--task", "one")
    assert undecided == (2, "the gate is undecided: there is no baseline in nowhere")


def plain_script(job: Job, baseline: str, *options: str) -> tuple[int, str]:
    """Run ci.sh, and return its exit code and the last line that it wrote itself."""
    done = subprocess.run(
        ["./ci.sh", "tiny", baseline, "gate.yaml", "--agent", "noop", *options],
        cwd=job.runner.folder,
        env=job.runner.env,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=900,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith(("candidate/", "the gate"))]
    return done.returncode, "".join(lines)


def test_stale_run_directory_is_refused(job: Job) -> None:
    assert job.runner.run(suite="tiny", args="--agent noop", **{"run-dir": "baseline"}) == 2


@pytest.mark.parametrize(
    "schema, file",
    [
        ("vendor.github-actions", ROOT / "action.yml"),
        ("vendor.github-workflows", EXAMPLES / "github-actions.yml"),
        ("vendor.gitlab-ci", EXAMPLES / "gitlab-ci.yml"),
    ],
)
def test_file_is_valid_under_its_schema(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "--output-format", "json"]
    transform = ["--data-transform", "gitlab-ci"] if "gitlab" in schema else []
    done = subprocess.run([*command, *transform, str(file)], capture_output=True, text=True, check=False, timeout=600)
    assert json.loads(done.stdout)["status"] == "ok", done.stdout


def test_example_workflow_uses_inputs_of_the_action() -> None:
    workflow = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text(encoding="utf-8"))
    (used,) = [step for step in workflow["jobs"]["compare"]["steps"] if "agentbench" in step.get("uses", "")]
    assert set(used["with"]) <= set(ACTION["inputs"])
    required = {name for name, spec in ACTION["inputs"].items() if spec.get("required")}
    assert required <= set(used["with"])
