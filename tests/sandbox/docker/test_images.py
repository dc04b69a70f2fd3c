"""Images of tasks: named, built from a Dockerfile, without Python, with volumes."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SandboxUnavailable, SetupFailed
from agentbench.sandbox.docker import bundled_python
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.protocol import Phase
from agentbench.sandbox.served_sandbox import ServedSandbox
from agentbench.tree.entry import FileWrite
from tests.sandbox.conftest import SPEC
from tests.sandbox.docker.conftest import (
    SETUP,
    busybox_root,
    containers_of,
    ignore,
    make_plan,
    root_without_python,
    runner_image,
    wait_until,
)

pytestmark = pytest.mark.component


def test_missing_image_is_reported_with_the_pull_command(docker: DockerBackend) -> None:
    with pytest.raises(SandboxUnavailable, match=r"example\.invalid/none:1 is not on this machine") as caught:
        docker.check(replace(SPEC, image="example.invalid/none:1"))
    assert caught.value.remedy == "docker pull example.invalid/none:1"


def test_image_name_is_never_taken_for_an_option(docker: DockerBackend) -> None:
    with pytest.raises(SandboxError):
        docker.check(replace(SPEC, image="--help"))


@pytest.mark.req("C-04a")
def test_dockerfile_is_built_once_with_an_empty_context(
    docker: DockerBackend, engine: Engine, tmp_path: Path, source: Path
) -> None:
    base = runner_image(engine)
    (tmp_path / "hidden.txt").write_text("answer")
    file = tmp_path / "Dockerfile"
    file.write_text(f"FROM {base}\nENV FLAVOUR=own\nRUN ls -A > /tmp/x; id -u > /opt/env/who\n")
    spec = replace(SETUP, dockerfile=file)
    prepared = docker.prepare(make_plan(source, "true"), spec, on_step=ignore)
    tag = prepared.details["image"]
    assert prepared.details["image_digest"] == engine.inspect_image(tag)["Id"]
    with docker.open(replace(spec, phase=Phase.AGENT), prepared) as sandbox:
        assert sandbox.run(Command(line="echo $FLAVOUR; cat /opt/env/who")).stdout.kept == b"own\n1000\n"
    file.write_text(f"FROM {base}\nCOPY hidden.txt /hidden.txt\n")
    with pytest.raises(SetupFailed, match="does not build: COPY failed: "):
        docker.prepare(make_plan(source, "true", key="other"), spec, on_step=ignore)
    second = DockerBackend(tmp_path / "state", engine)
    with contextlib.closing(second), pytest.raises(SetupFailed, match="was not retried"):
        second.prepare(make_plan(source, "true", key="other"), spec, on_step=ignore)
    engine.run("image", "rm", "--force", tag)


@pytest.mark.parametrize("shell", [True, False])
def test_image_without_python_gets_the_hosts_for_the_server_only(
    docker: DockerBackend, engine: Engine, source: Path, shell: bool
) -> None:
    image = f"agentbench-test/bare-{shell}:1".lower()
    engine.output("import", "-", image, stdin=root_without_python(with_shell=shell))
    spec = replace(SPEC, image=image)
    try:
        prepared = docker.prepare(make_plan(source), replace(spec, phase=Phase.SETUP), on_step=ignore)
        assert "copied into the image" in prepared.details["server"]
        assert prepared.details["python"] == "absent"
        with docker.open(spec, prepared) as sandbox:
            assert sandbox.run(Command(argv=("python3", "-V"))).exit_code == 127
            done = sandbox.run(Command(line="echo $0 $HOME"))
            assert done.stdout.kept == (b"/bin/sh /home/agent\n" if shell else b"")
            assert done.exit_code == (0 if shell else 127)
            sandbox.write_files([FileWrite(b"new", b"x")])
            assert {entry.path for entry in sandbox.tree().entries()} > {b"new", b"src/app.py"}
    finally:
        engine.run("image", "rm", "--force", image)


def test_image_that_can_run_no_python_is_refused(
    docker: DockerBackend, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no weaker fallback: `docker exec` cannot give a test run its own descriptor for results."""
    image = "agentbench-test/bare-refused:1"
    engine.output("import", "-", image, stdin=root_without_python(with_shell=True))
    monkeypatch.setattr(bundled_python, "_find_parts", lambda _: None)
    bundled_python._parts.cache_clear()
    try:
        with pytest.raises(SandboxUnavailable, match="no interpreter of this host can be copied into it") as caught:
            docker.open(replace(SPEC, image=image), None).__enter__()
        assert caught.value.exit_code == 3
        assert "python3 3.8" in caught.value.remedy
    finally:
        engine.run("image", "rm", "--force", image)


@pytest.mark.req("C-04a")
def test_busybox_image_is_a_complete_sandbox(docker: DockerBackend, engine: Engine, source: Path) -> None:
    """Commands and trees need nothing from the image, whatever its libc."""
    image = "agentbench-test/busybox:1"
    engine.output("import", "-", image, stdin=busybox_root())
    spec = replace(SPEC, image=image)
    try:
        plan = make_plan(source, "date +%s > made; ls -l / > /dev/null", capture=("busybox | head -n 1",))
        prepared = docker.prepare(plan, replace(spec, phase=Phase.SETUP), on_step=ignore)
        assert b"BusyBox" in prepared.steps[1].stdout
        with docker.open(spec, prepared) as sandbox:
            assert isinstance(sandbox, ServedSandbox)
            server = r"python 3\.\d+\.\d+, copied into the image, which has none that fits"
            assert re.fullmatch(server, sandbox.server)
            assert sandbox.run(Command(line="id -u; python3 -V || wc -l < made")).stdout.kept == b"1000\n1\n"
            assert sandbox.run(Command(line="sleep 60 & yes", timeout_sec=0.5)).timed_out
            assert sandbox.kill_processes() == 0
            running = sandbox.start(Command(line="cat", timeout_sec=20))
            running.write(b"\0binary\xff")
            running.close_stdin()
            assert running.wait().stdout.kept == b"\0binary\xff"
            assert {entry.path for entry in sandbox.tree().entries()} > {b"made", b"src/app.py"}
    finally:
        engine.run("image", "rm", "--force", image)


@pytest.mark.req("R-05", "R-06")
def test_volumes_of_an_image_become_ordinary_folders(
    docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
) -> None:
    """Files on a volume are in no layer, so they would not be committed, and no limit would count them."""
    image = "agentbench-test/volumes:1"
    changes = ["--change", "VOLUME /workspace /data", "--change", "ENV FLAVOUR=own"]
    engine.output("import", *changes, "-", image, stdin=busybox_root())
    spec = replace(SPEC, image=image)
    try:
        plan = make_plan(source, "echo made > made; echo $FLAVOUR > ~/flavour")
        prepared = docker.prepare(plan, replace(spec, phase=Phase.SETUP), on_step=ignore)
        assert prepared.details["image_digest"] == engine.inspect_image(image)["Id"]
        with docker.open(spec, prepared) as sandbox:
            lines = sandbox.run(Command(line="cat made run.sh ~/flavour")).stdout.kept.splitlines()
            assert lines[::3] == [b"made", b"own"]
            assert {entry.path for entry in sandbox.tree().entries()} > {b"made", b"src/app.py"}
            assert b" /data " not in sandbox.run(Command(line="cat /proc/self/mounts")).stdout.kept
        names = engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()
        assert not any(name.endswith("-flat") for name in names)
        wait_until(lambda: containers_of(engine, tmp_path / "state") == [])
    finally:
        engine.run("image", "rm", "--force", image)
