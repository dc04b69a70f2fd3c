"""Agents of Harbor: their names, and the program that runs them, with the real Harbor and a model on loopback.

In the sandbox and through the gateway: tests/execution/test_cli_agents.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentbench.agents.base import AgentSetup
from agentbench.agents.cli.agent import profile_of
from agentbench.agents.cli.profiles import HARBOR, PRIVATE, TARGET
from agentbench.agents.registry import make_agent
from agentbench.core.errors import InputError
from tests.agents.test_inspect_solver import NamedModel

pytestmark = [pytest.mark.req("T-05"), pytest.mark.component]

RUNNER = Path(__file__).parents[2] / "src/agentbench/agents/cli/sandboxed/run_harbor_agent.py"
AGENTS = '''
import litellm
from harbor.agents.base import BaseAgent


class Fixer(BaseAgent):
    """Runs a command that hangs, and one that the model chooses."""

    @staticmethod
    def name():
        return "fixer"

    def version(self):
        return "1"

    async def setup(self, environment):
        (self.logs_dir / "notes").write_text("x")
        await environment.upload_file(self.logs_dir / "notes", f"{environment.trial_paths.agent_dir}/deep/copy")
        assert await environment.is_file(f"{environment.trial_paths.agent_dir}/deep/copy")

    async def run(self, instruction, environment, context):
        try:
            await environment.exec("sleep 600 & sleep 600", timeout_sec=1)
            raise AssertionError("the command ended")
        except RuntimeError as error:
            assert str(error) == "Command timed out after 1 seconds"
        messages = [{"role": "user", "content": instruction}]
        reply = await litellm.acompletion(model=self.model_name, messages=messages)
        done = await environment.exec(reply.choices[0].message.content, env={"WORD": "42"}, user="root")
        assert (done.stdout, done.stderr, done.return_code) == ("out\\n", "err\\n", 3), done

'''


@pytest.fixture
def model() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """A chat endpoint that always gives the same command, and the requests that it got."""
    received: list[dict[str, object]] = []
    command = "echo $WORD > answer.txt; echo out; echo err >&2; exit 3"

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            message = {"role": "assistant", "content": command}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = json.dumps(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": "m",
                    "choices": [choice],
                    "usage": usage,
                }
            )
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", received
    finally:
        server.shutdown()
        server.server_close()


def run_fixer(python: str, folder: Path, model_url: str) -> subprocess.CompletedProcess[str]:
    (folder / "files").mkdir()
    (folder / "files/mine.py").write_text(AGENTS)
    (folder / "briefing.md").write_text("Make it 42.")
    (folder / "workspace").mkdir()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "LITELLM"))},
        **{name: HARBOR.rendered(value, model="m").replace(PRIVATE, str(folder)) for name, value in HARBOR.env.items()},
        "AB_AGENT_FILES": str(folder / "files"),
        "AB_BRIEFING": str(folder / "briefing.md"),
        "OPENAI_BASE_URL": model_url,
        "OPENAI_API_KEY": "unused",
        "TMPDIR": str(folder),
        "NO_PROXY": "*",
    }
    command = [python, str(RUNNER), "mine:Fixer", "vendor/m"]
    return subprocess.run(command, cwd=folder / "workspace", env=env, capture_output=True, text=True, check=False)


def test_agent_works_in_the_workspace_with_its_model(
    peers_python: str, tmp_path: Path, model: tuple[str, list[dict[str, object]]]
) -> None:
    url, received = model
    done = run_fixer(peers_python, tmp_path, url)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace/answer.txt").read_text() == "42\n"
    assert [path.name for path in (tmp_path / "workspace").iterdir()] == ["answer.txt"]
    assert [(request["model"], request["messages"]) for request in received] == [
        ("vendor/m", [{"role": "user", "content": "Make it 42."}])
    ]


@pytest.mark.parametrize("argument", ["terminus-2", "my.agents:Fixer"])
def test_agent_is_named_as_in_harbor(tmp_path: Path, argument: str) -> None:
    agent = make_agent(f"harbor:{argument}", AgentSetup("t", tmp_path, files=tmp_path, model=NamedModel()))
    assert profile_of(agent.name) is HARBOR
    line = HARBOR.rendered(HARBOR.line, model="m", argument=argument)
    assert line == f"{TARGET}/venv/bin/python {PRIVATE}/run_harbor_agent.py {argument} m"


@pytest.mark.parametrize(
    "name", ["harbor:", "harbor:a;reboot", "harbor:../a", "harbor:a:b c", "harbor:A b", "harbor:-x"]
)
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="invalid agent"):
        make_agent(name, AgentSetup("t", tmp_path, model=NamedModel()))
