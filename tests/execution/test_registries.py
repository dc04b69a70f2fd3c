"""`policy.dependencies.registries`: setup downloads from the listed hosts and from nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.execution.conftest import Ab
from tests.execution.tasks import TASK, make_task
from tests.execution.test_network import HOST, index, wheel
from tests.execution.web import Site, site

__all__ = ["index"]

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("C-08c")]


@pytest.fixture
def other() -> Iterator[Site]:
    """Another index, on an address that the task does not list."""
    file, data = wheel("tinyother", "1.0")
    pages = {"/simple/tinyother/": f'<a href="/files/{file}">{file}</a>'.encode(), f"/files/{file}": data}
    with site(pages, "127.0.0.3") as web:
        yield web


def install(host: str, port: int, package: str) -> str:
    return f"pip install -q --no-cache-dir --index-url http://{host}:{port}/simple/ --trusted-host {host} {package}"


def task_with(folder: Path, registries: str, *commands: str, environment: str = "") -> Path:
    text = TASK.format(id="answer").replace(
        "{timeout_sec: 120,", f"{{network_policy: setup_only, {environment} timeout_sec: 120,"
    )
    text = text.replace("mem_limit_mb: 256", "mem_limit_mb: 1024").replace("disk_limit_mb: 64", "disk_limit_mb: 512")
    listed = "".join(f'    - "{command}"\n' for command in commands)
    more = (
        f"policy: {{dependencies: {{registries: [{registries}]}}}}\nsetup:\n  timeout_sec: 120\n  commands:\n{listed}"
    )
    return make_task(folder, text=text + more)


SANDBOXES = [
    "bwrap",
    pytest.param(
        "docker",
        marks=pytest.mark.skipif(os.environ.get("AB_TEST_DOCKER") != "1", reason="set AB_TEST_DOCKER=1 to run it too"),
    ),
]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_setup_installs_from_a_listed_registry(ab: Ab, tmp_path: Path, index: Site, sandbox: str) -> None:
    task = task_with(tmp_path / "task", f'"{HOST}:{index.port}"', install(HOST, index.port, "tinyanswer"))
    command = "python3 -c 'import tinyanswer; print(tinyanswer.ANSWER)' > answer.txt"
    ran = ab.by_command(task, command, "--sandbox", sandbox)
    assert ran.record["result"]["passed"], ran.stderr
    assert [path for _, path, _, _ in index.requests if path.startswith("/files/")]


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_setup_fails_if_it_uses_another_registry(
    ab: Ab, tmp_path: Path, index: Site, other: Site, sandbox: str
) -> None:
    commands = (install(HOST, index.port, "tinyanswer"), install("127.0.0.3", other.port, "tinyother") + " || true")
    task = task_with(tmp_path / "task", f'"{HOST}:{index.port}"', *commands)
    record = ab.run_task(task, "--agent", "noop", "--sandbox", sandbox).record
    assert record["result"]["failure_reason"] == "SETUP_FAILED"
    expected = f"setup requested hosts that policy.dependencies.registries does not allow: 127.0.0.3:{other.port}"
    assert expected in record["termination"]["rationale"]
    assert other.requests == []


def test_setup_has_no_network_beside_the_proxy(ab: Ab, tmp_path: Path, other: Site) -> None:
    direct = f"python3 -c 'import socket; socket.create_connection((\\\"127.0.0.3\\\", {other.port}), 5)'"
    task = task_with(tmp_path / "task", "pypi.org", f"! {direct}", "test ! -s /etc/resolv.conf")
    record = ab.run_task(task, "--agent", "reference").record
    assert record["result"]["passed"], record["termination"]
    assert other.requests == []


def test_environment_of_a_longer_list_is_not_reused(ab: Ab, tmp_path: Path, index: Site) -> None:
    command = install(HOST, index.port, "tinyanswer")
    allowed = task_with(tmp_path / "allowed", f'"{HOST}:{index.port}"', command)
    assert ab.run_task(allowed, "--agent", "reference").record["result"]["passed"]
    refused = task_with(tmp_path / "refused", "pypi.org", command)
    record = ab.run_task(refused, "--agent", "reference").record
    assert record["result"]["failure_reason"] == "SETUP_FAILED"
    assert f"{HOST}:{index.port}" in record["termination"]["rationale"]


def test_address_of_an_index_is_not_a_host(ab: Ab, tmp_path: Path) -> None:
    ran = ab("task", "check", task_with(tmp_path / "task", '"https://pypi.org/simple"', "true"))
    assert ran.code == 2
    assert "expected host or host:port" in ran.stdout + ran.stderr


def test_dockerfile_cannot_be_limited_and_is_refused(ab: Ab, tmp_path: Path) -> None:
    task = task_with(tmp_path / "task", "pypi.org", "true", environment="dockerfile: Dockerfile,")
    (task / "Dockerfile").write_text("FROM scratch\n")
    ran = ab("run-task", "--task", task, "--agent", "noop", "--sandbox", "bwrap")
    assert ran.code == 2
    assert "cannot be enforced while a Dockerfile is built" in ran.stderr
