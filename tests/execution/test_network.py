"""`network_policy: always` end to end: clients inside a sandbox, a server outside, everything in the log."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentbench.trace.log import read_events
from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task
from tests.execution.web import Site, site

pytestmark = pytest.mark.end_to_end

HOST = "127.0.0.2"
"""A loopback address that HTTP clients do not exclude from their proxy."""


def wheel(name: str, version: str) -> tuple[str, bytes]:
    """Return the smallest wheel that pip accepts."""
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "ANSWER = 42\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    listed = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}"
        for path, text in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*listed, f"{info}/RECORD,,"]) + "\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", buffer.getvalue()


@pytest.fixture
def index() -> Iterator[Site]:
    file, data = wheel("tinyanswer", "1.0")
    pages = {"/simple/tinyanswer/": f'<a href="/files/{file}">{file}</a>'.encode(), f"/files/{file}": data, "/": b"hi"}
    with site(pages, HOST) as web:
        yield web


def networked(folder: Path, allow: str, more: str = "") -> Path:
    text = TASK.format(id="answer").replace(
        "{timeout_sec: 120,", f"{{network_policy: always, network_allow: [{allow}], timeout_sec: 60, {more}"
    )
    return make_task(folder, text=text.replace("tool_timeout_sec: 60", "tool_timeout_sec: 50"))


def network_events(ab: Ab, record: dict[str, Any]) -> list[dict[str, Any]]:
    log = Path(record["run_dir"]) / record["artifact_paths"]["task_dir"] / "events.jsonl"
    return [
        {"type": event.type, **event.payload.model_dump()}
        for event in read_events(ab.cwd / log)
        if event.type.startswith("network_") or event.type in {"monitor_alert", "intervention"}
    ]


SCRIPT = """
set -x
python3 -c 'import urllib.request as u; print(u.urlopen("http://{server}/").read())' || exit 1
if command -v curl; then curl -sSf http://{server}/ || exit 2; curl -sSfp http://{server}/ || exit 3; fi
python3 -m pip download -q --no-deps --no-cache-dir --disable-pip-version-check --index-url http://{server}/simple/ \
    --trusted-host 127.0.0.2 -d /tmp/got tinyanswer || exit 4
python3 - <<'END' || exit 5
import http.client, socket, sys
for host, port in (("169.254.169.254", 80), ("127.0.0.1", 8377), ("127.0.0.2", 1)):
    way = http.client.HTTPConnection("127.0.0.1", 8378)
    way.set_tunnel(host, port)
    try:
        way.connect()
        sys.exit(f"{{host}} was reached")
    except OSError as error:
        assert "403" in str(error), error
try:
    socket.create_connection(("127.0.0.2", {port}), 3)
    sys.exit("a way past the proxy")
except OSError:
    pass
END
ls /tmp/got/tinyanswer-1.0-py3-none-any.whl && echo 42 > answer.txt
"""


def check(ab: Ab, web: Site, task: Path, *options: str) -> None:
    ab = replace(ab, env={**ab.env, **{name: os.environ[name] for name in ("DOCKER_HOST",) if name in os.environ}})
    server = f"{HOST}:{web.port}"
    agent = ab.cwd / "agent"
    agent.mkdir()
    (agent / "go.sh").write_text(SCRIPT.format(server=server, port=web.port))
    line = 'sh "$AB_AGENT_FILES/go.sh"'
    ran = ab.by_command(task, line, "--agent-files", agent, *options)
    assert ran.code == 0, ran.stderr
    (run,) = (ab.cwd / "artifacts" / "runs").iterdir()
    record = {**ran.record, "run_dir": run}
    events = network_events(ab, record)
    # The task is solved, but requesting cloud credentials is never allowed.
    assert record["gates"]["G3"]["passed"], (ran.stderr, record["termination"], events)
    assert record["gates"]["G4"]["outcome"] == "fail"
    requests = [event for event in events if event["type"] == "network_request"]
    allowed = [request["target"] for request in requests if not request["refused"]]
    assert any(target.endswith(".whl") for target in allowed)
    assert f"http://{server}/simple/tinyanswer/" in allowed
    refused = [(request["target"], request["refused"]) for request in requests if request["refused"]]
    assert refused == [(f"{host}", "not_public") for host in ("169.254.169.254:80", "127.0.0.1:8377", "127.0.0.2:1")]
    responses = [event for event in events if event["type"] == "network_response"]
    assert len(responses) == len(allowed)
    assert all(response["address"] == HOST and not response["error"] for response in responses)
    rules = {event["rule"] for event in events if event["type"] == "monitor_alert"}
    assert {"network.inside", "network.metadata_service"} <= rules
    manifest = (run / record["artifact_paths"]["task_dir"] / "manifest.json").read_text()
    assert '"replayable": false' in manifest
    assert "tunnels by destination, count and digest" in manifest
    verified = ab("verify", run)
    assert verified.code == 0, verified.stdout
    replayed = ab("replay", run, *options)
    assert replayed.code == 0, replayed.stdout


@pytest.mark.req("R-12", "M-02a", "M-12")
def test_sandboxed_clients_reach_only_listed_hosts(ab: Ab, tmp_path: Path, index: Site) -> None:
    check(ab, index, networked(tmp_path / "t", f'"{HOST}:{index.port}"'))


@pytest.mark.req("R-12")
@pytest.mark.skipif("AB_TEST_DOCKER" not in os.environ, reason="set AB_TEST_DOCKER=1 to run it in a container too")
def test_container_clients_reach_only_listed_hosts(ab: Ab, tmp_path: Path, index: Site) -> None:
    check(ab, index, networked(tmp_path / "t", f'"{HOST}:{index.port}"'), "--sandbox", "docker")


@pytest.mark.req("R-12")
def test_checks_have_no_network_and_no_proxy(ab: Ab, tmp_path: Path, index: Site) -> None:
    task = networked(tmp_path / "t", f'"{HOST}:{index.port}"')
    text = (task / "task.yaml").read_text()
    reach = 'grep -qx 42 answer.txt && test -z \\"$HTTP_PROXY\\" && test ! -e /opt/proxy'
    (task / "task.yaml").write_text(text.replace("grep -qx 42 answer.txt", reach))
    assert ab.by_command(task, "echo 42 > answer.txt").record["result"]["passed"]


@pytest.mark.req("R-12")
@pytest.mark.parametrize("allow, why", [("", "needs a non-empty network_allow"), ('"10.0.0.1"', "give its port")])
def test_invalid_allow_list_is_refused_before_the_run(ab: Ab, tmp_path: Path, allow: str, why: str) -> None:
    ran = ab("run-task", "--task", networked(tmp_path / "t", allow), "--agent", "noop")
    assert ran.code == 2
    assert why in ran.stderr
    assert not (tmp_path / "artifacts").exists()
