"""Containers carry labels, and none outlives its harness for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import Interrupted, SandboxError
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine, EngineSlow
from agentbench.sandbox.usage_sampler import SampledBackend
from tests.sandbox.conftest import SPEC
from tests.sandbox.docker.conftest import containers_of, processes_with, runner_image, wait_until

pytestmark = pytest.mark.component


@pytest.mark.req("R-06")
def test_containers_carry_the_labels_of_their_run(docker: DockerBackend, engine: Engine) -> None:
    sampled = SampledBackend(docker, lambda *_: None, labels={"run": "run-of-this-test"})
    with sampled.open(replace(SPEC, labels={"task": "a-task"}), None) as sandbox:
        values = json.loads(engine.output("inspect", "--format", "{{json .Config.Labels}}", sandbox.id))
        assert (values["agentbench.run"], values["agentbench.task"]) == ("run-of-this-test", "a-task")
        assert values[labels.KIND] == "agent"


def test_closing_leaves_no_container(docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
    with docker.open(SPEC, None) as sandbox:
        sandbox.start(Command(line="sleep 300"))
        assert len(containers_of(engine, tmp_path / "state")) == 1
    docker.close()
    assert containers_of(engine, tmp_path / "state") == []
    assert list((tmp_path / "state/live").iterdir()) == []


def test_closed_backend_starts_no_container(docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
    """A worker can be about to start one when Ctrl-C closes the backend."""
    docker.close()
    with pytest.raises(SandboxError, match="closed"), docker.open(SPEC, None):
        pass
    assert containers_of(engine, tmp_path / "state") == []


def test_closing_cancels_a_build(docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
    mark = f"31{os.getpid()}.5"
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM {runner_image(engine)}\nRUN sleep {mark}\n")

    def close_once_it_builds() -> None:
        wait_until(lambda: bool(processes_with(mark.encode())))
        docker.close()

    closer = threading.Thread(target=close_once_it_builds, daemon=True)
    closer.start()
    with pytest.raises(Interrupted), docker.open(replace(SPEC, dockerfile=file), None):
        pass
    closer.join()
    wait_until(lambda: not processes_with(mark.encode()))


@pytest.mark.req("G-14")
@pytest.mark.parametrize("request_name", ["create_container", "start_container"])
def test_container_is_started_again_if_the_engine_is_too_slow(
    docker: DockerBackend, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    """The engine does what it was asked, but answers too late."""
    request = getattr(engine, request_name)
    asked: list[str] = []

    def answer_late(name: str, *config: object) -> None:
        request(name, *config)
        asked.append(name)
        if len(asked) == 1:
            raise EngineSlow("the docker engine does not answer within 120 s")

    monkeypatch.setattr(engine, request_name, answer_late)
    with docker.open(SPEC, None) as sandbox:
        assert sandbox.id == asked[1] != asked[0]
        assert sandbox.run(Command(line="true")).ok
        assert len(containers_of(engine, tmp_path / "state")) == 1


@pytest.mark.req("R-16")
def test_next_start_removes_what_a_killed_harness_left(engine: Engine, tmp_path: Path) -> None:
    state = tmp_path / "state"
    code = (
        "import sys, time\nfrom pathlib import Path\n"
        "from agentbench.sandbox.docker.backend import DockerBackend\n"
        "from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec\n"
        "from agentbench.core.command import Command\n"
        "backend = DockerBackend(Path(sys.argv[1]))\n"
        "with backend.open(SandboxSpec(Phase.AGENT, Limits(memory_mb=128, disk_mb=32)), None) as sandbox:\n"
        "    sandbox.start(Command(line='setsid sleep 313.7 & sleep 313.7', timeout_sec=300))\n"
        "    print('up', flush=True)\n"
        "    time.sleep(300)\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", code, str(state)], stdout=subprocess.PIPE)
    try:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"up\n"
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        if harness.stdout is not None:
            harness.stdout.close()
    DockerBackend(state, engine).close()
    wait_until(lambda: not processes_with(b"313.7") and not processes_with(labels.state_hash(state).encode()))
    # The engine takes a container off its list a moment after its processes have ended.
    wait_until(lambda: containers_of(engine, state) == [])
    assert list((state / "live").iterdir()) == []


def test_dockerfile_build_ends_with_a_killed_harness(engine: Engine) -> None:
    sleep = f"4711.{os.getpid()}"
    code = (
        "from agentbench.sandbox.docker.engine import find_engine\n"
        f"dockerfile = b'FROM {runner_image(engine)}\\nRUN sleep {sleep}\\n'\n"
        "args = ('build', '--network', 'none', '--force-rm', '-')\n"
        "find_engine().run(*args, stdin=dockerfile, timeout_sec=300, die_with_parent=True)"
    )
    harness = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: bool(processes_with(f"sleep\0{sleep}".encode())), 60)
    finally:
        harness.kill()
        harness.wait()
    wait_until(lambda: processes_with(f"sleep\0{sleep}".encode()) == [])


def test_containers_of_another_live_backend_are_kept(docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
    with docker.open(SPEC, None) as sandbox:
        DockerBackend(tmp_path / "state", engine).close()
        assert sandbox.run(Command(line="echo alive")).stdout.kept == b"alive\n"


def test_only_containers_of_dead_owners_are_removed(docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
    """A container that was created and not started yet has no live sandbox, only its owner's label."""
    state = f"{labels.STATE}={labels.state_hash(tmp_path / 'state')}"
    owners = {"live": next((tmp_path / "state/live").iterdir()).name, "dead": "01dead"}
    created = {}
    for name, owner in owners.items():
        options = ["--label", state, "--label", f"{labels.OWNER}={owner}", "--network", "none"]
        created[name] = engine.output("create", *options, runner_image(engine), "true")
    DockerBackend(tmp_path / "state", engine).close()
    assert containers_of(engine, tmp_path / "state") == [created["live"]]
    engine.output("rm", created["live"])
