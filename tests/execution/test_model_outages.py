"""A model service that is unavailable starts no run, delays attempts, and is never the agent's failure."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import PATCH, make_task
from tests.execution.test_models import ASK
from tests.models.conftest import Serve
from tests.models.service import Behaviour, answer_body, good, hang, responds, status

pytestmark = pytest.mark.end_to_end


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.mark.req("R-13", "U-05")
@pytest.mark.parametrize("behaviour,code", [(None, 3), (status(503), 3), (status(401), 2), (status(404), 2)])
def test_failed_preflight_starts_nothing(
    ab: Ab, tmp_path: Path, serve: Serve, behaviour: Behaviour | None, code: int
) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1" if behaviour is None else serve(behaviour).url
    task = make_task(tmp_path / "task")
    ran = ab("run-task", "--task", task, "--agent", "llm_v0", "--model", f"m@{url}", "--out", tmp_path / "out")
    assert ran.code == code, ran.stderr
    assert "nothing was started" in ran.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.req("R-13", "U-05")
def test_preflight_says_what_it_waits_for_and_gives_a_hanging_service_up(ab: Ab, tmp_path: Path) -> None:
    task = make_task(tmp_path / "task")
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/v1"
        ran = ab("run-task", "--task", task, "--agent", "llm_v0", "--model", f"m@{url}", "--preflight-wait", "3")
    assert ran.code == 3, ran.stderr
    first, *rest = ran.stderr.splitlines()
    assert first == f"Waiting for an answer of --model m at {url}, up to 3 s (--preflight-wait)"
    assert "nothing was started; --preflight-wait waits longer" in "\n".join(rest)


@pytest.mark.req("R-13", "U-05")
def test_preflight_accepts_a_service_that_runs_and_loads_its_model(ab: Ab, tmp_path: Path, serve: Serve) -> None:
    server = serve(hang, responds(answer_body(f"```diff\n{PATCH}```")))
    task = make_task(tmp_path / "task")
    ran = ab("run-task", "--task", task, "--agent", "llm_v0", "--model", f"m@{server.url}", "--preflight-wait", "1")
    assert ran.code == 0, ran.stderr
    assert "gave no answer within 1 s, but its service runs: it may be loading the model" in ran.stderr


@pytest.mark.req("R-13", "R-10")
@pytest.mark.parametrize("agent,trouble", [("llm_v0", status(503)), ("command", status(401))])
def test_outage_makes_the_attempt_invalid_and_resume_repeats_it(
    ab: Ab, tmp_path: Path, serve: Serve, agent: str, trouble: Behaviour
) -> None:
    server = serve(good, trouble)
    task = make_task(tmp_path / "task")
    (tmp_path / "asker").mkdir()
    (tmp_path / "asker" / "ask.py").write_text(ASK)
    command = ("--agent-command", 'python3 "$AB_AGENT_FILES/ask.py" || true', "--agent-files", tmp_path / "asker")
    options = ("--agent", agent, *(command if agent == "command" else ()), "--model", f"m@{server.url}")
    ran = ab.run_task(task, *options, "--model-patience", "2", "--max-steps", "2", "--out", tmp_path / "out")
    assert ran.code == 3, ran.stderr
    assert f"the model service {server.url} is unavailable: the service answered" in ran.stderr
    record = ran.record
    assert record["result"]["failure_reason"] == "LLM_ERROR"
    assert (record["run_status"], record["invalid_cause"], record["attribution"]) == ("invalid", "harness", "harness")
    assert (record["termination"]["code"], record["checks"]) == ("model_unavailable", [])
    assert record["gates"]["G1"]["why"] == "not evaluated: the attempt ended before grading"
    assert "1 attempt without a result: the model was unavailable." in ran.stderr
    run = ran.json["run_dir"]
    assert ab("verify", run).code == 0
    server.behaviours = [responds(answer_body("42\n" if agent == "command" else f"```diff\n{PATCH}```"))]
    again = ab("run", "--resume", run, "--json")
    assert (again.code, again.record["result"]["passed"]) == (0, True), again.stderr
