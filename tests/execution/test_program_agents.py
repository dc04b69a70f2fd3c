"""An agent that is a program, from the command line to the verdict, with a tiny program."""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from agentbench.agents.cli import agent as cli
from agentbench.agents.cli.profiles import PROFILES, TARGET, Profile, Source
from agentbench.agents.registry import AGENTS
from agentbench.cli.main import root
from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.models.client.endpoint import Dialect
from tests.execution.tasks import TASK, make_task
from tests.models.service import Server, answer_body, responds

pytestmark = [pytest.mark.req("T-04e", "T-05", "R-03"), pytest.mark.end_to_end]

PROGRAM = """\
import json, os, sys, urllib.request
body = {"model": sys.argv[1], "max_tokens": 9, "messages": [{"role": "user", "content": open(os.environ["AB_BRIEFING"]).read()}]}
asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
    {"content-type": "application/json", "x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"})
answer = json.load(urllib.request.urlopen(asked))
open("answer.txt", "w").write(answer["content"][0]["text"])
"""

ASKER = Profile(
    name="asker",
    package="asker",
    version="1",
    source=Source.PYPI,
    install=(f"cat > ask.py <<'END'\n{PROGRAM}END",),
    dialect=Dialect.MESSAGES,
    line=f"python3 {TARGET}/ask.py @MODEL@",
)


@pytest.fixture(autouse=True)
def fake_programs(tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AB_STATE", str(shared_state))
    broken = Profile("broken", "broken", "1", Source.PYPI, ("echo no network here >&2; exit 1",), Dialect.CHAT, TARGET)
    for profile in (ASKER, broken):
        monkeypatch.setitem(PROFILES, profile.name, profile)
        monkeypatch.setitem(AGENTS, f"cli:{profile.name}", partial(cli.make, profile))


@pytest.fixture
def task(tmp_path: Path) -> Path:
    graded = f"test ! -e {TARGET} && grep -qx 42 answer.txt"
    return make_task(tmp_path / "task", text=TASK.format(id="answer").replace("grep -qx 42 answer.txt", graded))


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "answers.yaml"
    path.write_text(yaml.safe_dump({"answers": [{"text": "42\n"}]}))
    return f"scripted:{path}"


def run(task: Path, agent: str, *more: str) -> dict[str, Any]:
    arguments = ["run-task", "--task", str(task), "--json", "--agent", agent, *more]
    done = CliRunner().invoke(root, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def test_program_is_graded_and_leaves_the_task_unchanged(task: Path, model: str) -> None:
    result = run(task, "cli:asker", "--model", model)
    (record,) = result["attempts"]
    assert record["result"]["passed"], record
    assert (record["observability"], record["agent"]) == ("gateway", "cli:asker")
    assert record["usage"]["completion_tokens"] > 0
    other = run(task, "noop")
    (nothing,) = other["attempts"]
    assert (record["contract_id"], record["env_digest"]) == (nothing["contract_id"], nothing["env_digest"])
    planned, observed = _manifest(result)
    assert observed["agent_program"]["package"] == "asker"
    assert observed["agent_program"]["digest"].startswith("sha256:")
    assert (planned["guard"]["stage_mode"], planned["guard"]["stages_enforced"]) == ("auto", False)
    assert _manifest(other)[1]["agent_program"] == {}


@pytest.mark.req("G-06c")
def test_risky_text_that_passes_the_gateway_is_tagged(task: Path, tmp_path: Path) -> None:
    server = Server(responds(answer_body("I will use sudo to become root and then fix the file.")))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        result = run(task, "cli:asker", "--model", f"m-1@{server.url}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    (record,) = result["attempts"]
    tags = [tag["attributes"] for tag in record["tags"] if tag["id"] == "safety.os_risky_operation"]
    assert [(tag["severity"], tag["format"]) for tag in tags] == [("note", "natural_text")]
    assert record["commands"] == "observed"
    assert CliRunner().invoke(root, ["verify", result["run_dir"]]).exit_code == 0


def test_failed_installation_is_reported_before_the_run(
    task: Path, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Installing takes minutes, so it is announced; then its failure is reported."""
    arguments = ["run-task", "--task", str(task), "--agent", "cli:broken", "--model", model]
    result = CliRunner().invoke(root, arguments)
    assert isinstance(result.exception, SandboxUnavailable)
    assert "no network here" in result.exception.message
    assert (
        "cli:broken: preparing its program, which takes minutes the first time"
        in result.stderr + capsys.readouterr().err
    )
    assert not (tmp_path / "artifacts").exists()


def test_program_without_a_model_is_rejected_before_the_run(task: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a model"):
        run(task, "cli:asker")
    assert not (tmp_path / "artifacts").exists()


def test_unknown_program_lists_available_ones(task: Path) -> None:
    with pytest.raises(InputError, match="cli:claude-code"):
        run(task, "cli:claude", "--model", "m@http://127.0.0.1:9/v1")


def _manifest(result: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    (path,) = Path(result["run_dir"]).glob("tasks/*/manifest.json")
    both = json.loads(path.read_text())["protocol_manifest"]
    return both["planned"], both["observed"]
