from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.models.gateway.server import Gateway
from agentbench.sandbox.protocol import Backend, Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.server import forward
from tests.models.conftest import OpenMetered
from tests.models.metered_gateway import PROMPT, script
from tests.sandbox.conftest import require_docker
from tests.session_state import shared_state

pytestmark = pytest.mark.component

LIMITS = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=64, inodes=20_000)

ASK = """
import json, os, urllib.request
body = json.dumps({"model": "x", "messages": [{"role": "user", "content": "hi"}]}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


@pytest.fixture(scope="module", params=["bwrap", "docker"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    if request.param == "docker":
        require_docker()
    elif shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    backend = open_backend(request.param, state=shared_state(tmp_path_factory, "models-state"), needs_image=False)
    yield backend
    backend.close()


@pytest.mark.req("T-05", "R-09")
def test_sandboxed_program_reaches_only_the_model(open_metered: OpenMetered, backend: Backend) -> None:
    metered = open_metered(script({"text": "from the model"}, after="repeat"))
    with Gateway(metered.folder / "gateway", metered.metered_model) as gateway:
        spec = gateway.forward.add_to(SandboxSpec(Phase.AGENT, LIMITS), {})
        with backend.open(spec, None) as sandbox:
            gateway.forward.start(sandbox, 60)
            env = dict(gateway.environment())
            for _ in range(2):
                done = sandbox.run(Command(argv=("python3", "-c", ASK), env=env, timeout_sec=30))
                assert done.stdout.kept == b"from the model\n", done.stderr.kept
            # Epoll watches are limited per user, and other sandboxes of the same user could use them up.
            held = sandbox.run(Command(line="ls -l /proc/[0-9]*/fd 2>/dev/null")).stdout.kept
            assert b"socket:" in held
            assert b"eventpoll" not in held
            there = "/opt/gateway"
            listing = sandbox.run(Command(line=f"env; ls -la {there}; touch {there}/x; rm {there}/gateway.sock"))
            assert b"Read-only" in listing.stderr.kept
            assert b"API_KEY" not in listing.stdout.kept
            elsewhere = "import socket; socket.create_connection(('1.1.1.1', 443), 2)"
            assert not sandbox.run(Command(argv=("python3", "-c", elsewhere), timeout_sec=20)).ok
            sandbox.kill_processes()
    assert [r.status for r in metered.responses()] == ["ok", "ok"]


def test_forwarder_passes_large_bodies(open_metered: OpenMetered) -> None:
    long = "x" * 3_000_000
    metered = open_metered(script({"text": long})).open_gateway()
    prompt = [{"role": "user", "content": long}]
    got = metered.openai().chat.completions.create(model="m", messages=prompt)  # type: ignore[arg-type]
    assert got.choices[0].message.content == long
    (request,) = metered.requests()
    assert len(json.loads(metered.blobs.get(request.messages.blob or ""))["messages"][0]["content"]) == len(long)


def test_forwarder_survives_a_missing_gateway(tmp_path: Path) -> None:
    import socket

    process = subprocess.Popen(
        [sys.executable, "-I", forward.__file__, "0", str(tmp_path / "nothing.sock")], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().split()[1])
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.settimeout(5)
                assert client.recv(10) == b""
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_forwarder_needs_only_the_standard_library() -> None:
    code = f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]; import runpy; runpy.run_path({forward.__file__!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_forwarder_serves_many_clients_at_once(open_metered: OpenMetered) -> None:
    metered = open_metered(script({"text": "yes"}, after="repeat")).open_gateway()
    client = metered.openai()
    got: list[str | None] = []

    def ask() -> None:
        for _ in range(5):
            reply = client.chat.completions.create(model="m", messages=PROMPT)
            got.append(reply.choices[0].message.content)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["yes"] * 40
