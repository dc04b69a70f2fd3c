"""Breakers and caps for agents that are programs: they see what the program does while it runs, and they end it at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from agentbench.cli.main import root
from agentbench.tools.program_run import ProgramRun
from agentbench.tools.session import Session
from tests.execution.conftest import Ab, Ran
from tests.execution.tasks import make_task

pytestmark = pytest.mark.end_to_end

PROGRAM = """\
import json, os, sys, time, urllib.request
def ask(text):
    body = {"model": "x", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
kind, requests = sys.argv[1], int(sys.argv[2])
answer = ""
for number in range(requests):
    try:
        answer = ask(f"question {number}")
    except OSError as error:
        print("refused", error, flush=True)
    if kind == "works":
        open("notes.txt", "w").write(f"note {number}\\n")
if kind == "idles":
    time.sleep(60)
open("answer.txt", "w").write(answer)
"""
LINE = 'python3 "$AB_AGENT_FILES/program.py" '


@dataclass(frozen=True)
class Attempt:
    run: Path
    record: dict[str, Any]
    events: list[dict[str, Any]]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def terminates(self) -> list[dict[str, Any]]:
        return [event for event in self.of("intervention") if event["payload"]["action"] == "terminate"]

    @property
    def guard(self) -> dict[str, Any]:
        manifest = json.loads((self.run / self.record["artifact_paths"]["task_dir"] / "manifest.json").read_text())
        guard: dict[str, Any] = manifest["protocol_manifest"]["planned"]["guard"]
        return guard


@dataclass(frozen=True)
class Programs:
    """Runs the program above as the agent, with a model that always gives the same answer."""

    ab: Ab
    folder: Path

    def __call__(
        self,
        arguments: str,
        *,
        more: str = "",
        tokens: int = 10,
        run: Callable[[Ab, tuple[str, ...]], Ran] | None = None,
    ) -> Attempt:
        files = self.folder / "files"
        files.mkdir()
        (files / "program.py").write_text(PROGRAM)
        (files / "pip").write_text("#!/bin/sh\n")
        (files / "pip").chmod(0o755)
        answers = self.folder / "answers.yaml"
        answer = {"text": "42\n", "usage": {"prompt": tokens, "completion": 0}}
        answers.write_text(yaml.safe_dump({"answers": [answer], "after": "repeat"}))
        task = make_task(self.folder / "task", more=more)
        command = (
            *("run-task", "--task", str(task), "--json", "--out", str(self.folder / "out"), "--agent", "command"),
            *("--agent-command", LINE + arguments, "--agent-files", str(files), "--model", f"scripted:{answers}"),
        )
        ran = self.ab(*command) if run is None else run(self.ab, command)
        assert ran.code == 0, ran.stderr
        folder = Path(ran.json["run_dir"])
        log = (folder / ran.record["artifact_paths"]["task_dir"] / "events.jsonl").read_text().splitlines()
        return Attempt(folder, ran.record, [json.loads(line) for line in log])


def in_process(ab: Ab, command: tuple[str, ...]) -> Ran:
    done = CliRunner().invoke(root, list(command), catch_exceptions=False, env=dict(ab.env))
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture
def programs(ab: Ab, tmp_path: Path) -> Programs:
    return Programs(ab, tmp_path)


@pytest.mark.req("M-03c", "E-05b")
def test_program_that_works_is_not_stopped(programs: Programs, ab: Ab) -> None:
    attempt = programs("works 90")
    assert attempt.record["result"]["passed"], attempt.record
    assert (attempt.record["termination"]["code"], attempt.record["run_badge"]) == ("agent_stopped", "completed")
    assert attempt.of("intervention") == []
    mutations = [event["seq"] for event in attempt.of("workspace_mutated")]
    requests = [event["seq"] for event in attempt.of("llm_request")]
    assert len(requests) == 90
    # Each rewrite is seen before the next request, in order.
    assert all(any(a < seq < b for seq in mutations) for a, b in pairwise(requests))
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("M-10", "E-05b")
def test_program_that_works_under_a_token_cap_is_not_dominated(programs: Programs, ab: Ab) -> None:
    attempt = programs("works 12", more="budget: {tokens: 1300}\n", tokens=100)
    assert attempt.record["result"]["passed"], attempt.record
    assert attempt.of("intervention") == []
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("M-10")
def test_idle_program_that_uses_its_budget_is_stopped(programs: Programs, ab: Ab) -> None:
    attempt = programs("idles 12", more="budget: {tokens: 1300}\n", tokens=100)
    assert attempt.record["termination"]["code"] == "dominance"
    assert len(attempt.terminates) == 1
    assert len(attempt.of("llm_request")) == 11
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("M-03a", "M-03c", "E-07b")
def test_idle_program_is_stopped_once_and_at_once(programs: Programs, ab: Ab) -> None:
    attempt = programs("idles 90")
    ending = attempt.record["termination"]
    assert (ending["code"], ending["category"]) == ("no_progress", "non_termination")
    assert len(attempt.terminates) == 1
    stopped = attempt.terminates[0]
    assert len(attempt.of("llm_request")) == 80
    assert [event for event in attempt.of("llm_request") if event["seq"] > stopped["seq"]] == []
    (finished,) = attempt.of("tool_call_finished")
    assert finished["payload"]["error_message"].startswith("ended by the harness: ")
    # The program sleeps for a minute after its requests; the promise is one second, the rest is for a busy machine.
    assert finished["t"] - stopped["t"] < 10_000_000
    assert [check["outcome"] for check in attempt.record["checks"]] == ["fail"]
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("E-07b", "E-12")
def test_verify_detects_a_program_that_went_on_after_its_end(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, ab: Ab
) -> None:
    # A harness that logs decisions and does not carry them out.
    monkeypatch.setattr(ProgramRun, "_watch", lambda _run: None)
    monkeypatch.setattr(Session, "is_over", lambda _session: False)
    attempt = programs("asks 90", run=in_process)
    (stopped,) = attempt.terminates
    later = next(event["seq"] for event in attempt.of("llm_request") if event["seq"] > stopped["seq"])
    verified = ab("verify", attempt.run)
    assert verified.code == 1
    assert f"event {later}: model request m81 after event {stopped['seq']} ended the attempt" in verified.stdout


@pytest.mark.req("M-07a", "E-07b")
def test_program_without_budget_is_stopped_once_and_at_once(programs: Programs, ab: Ab) -> None:
    attempt = programs("works 40 && sleep 60", more="budget: {tokens: 1000}\n", tokens=100)
    assert attempt.record["termination"]["code"] == "token_cap"
    assert len(attempt.terminates) == 1
    (finished,) = attempt.of("tool_call_finished")
    assert finished["t"] - attempt.terminates[0]["t"] < 10_000_000
    assert finished["payload"]["duration_us"] < 50_000_000
    patch = (attempt.run / attempt.record["patch"]["path"]).read_text()
    assert "notes.txt" in patch
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("M-03c", "E-07b")
def test_program_that_repeats_an_installation_is_stopped(programs: Programs, ab: Ab) -> None:
    line = '; for i in 1 2 3 4 5 6; do timeout 9 "$AB_AGENT_FILES/pip" install left-pad; done; sleep 60'
    attempt = programs(f"works 1{line}")
    if attempt.record["commands"] == "not_observed":
        pytest.skip(attempt.record["commands_why"])
    assert attempt.record["termination"]["code"] == "repeated_installs"
    assert len(attempt.terminates) == 1
    installs = [event for event in attempt.of("process_started") if event["payload"]["program"].endswith("/pip")]
    assert len([event for event in installs if event["seq"] < attempt.terminates[0]["seq"]]) in {3, 4}
    assert attempt.record["result"]["passed"], "the work before the end is graded"
    assert ab("verify", attempt.run).code == 0


@pytest.mark.req("M-03c", "R-02a")
def test_manifest_lists_rules_that_do_not_apply(programs: Programs) -> None:
    guard = programs("works 1").guard
    assert guard["not_applicable"]["repeated_calls"] == "tool calls of a program are not seen"
    assert not {"no_progress", "dominance"} & guard["not_applicable"].keys()
    assert guard["stops_enforced"]
