"""Prepared environments of the docker backend: committed images."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine, NoSuchImage
from agentbench.sandbox.environments.cache import contents, prune
from agentbench.sandbox.protocol import SetupStep
from tests.sandbox.conftest import SPEC
from tests.sandbox.docker.conftest import SETUP, containers_of, ignore, make_plan

pytestmark = pytest.mark.component


@pytest.mark.req("R-02a", "R-08", "C-04a")
def test_setup_runs_once_and_another_backend_finds_its_result(
    docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
) -> None:
    steps: list[SetupStep] = []
    plan = make_plan(source, "echo made > made; echo changed >> README; rm keep/file")
    first = docker.prepare(plan, SETUP, on_step=steps.append)
    assert (first.cached, first.backend, len(steps)) == (False, "docker", 1)
    assert first.setup_changed == (b"README", b"keep/file")
    assert first.base_tree.read(b"made", max_bytes=100) == b"made\n"
    assert first.base_tree.read(b"README", max_bytes=100) == b"read me\nchanged\n"
    assert first.base_tree.read(b"src/app.py", max_bytes=100) == b"print('app')\n"
    assert first.details["image_digest"].startswith("sha256:")
    other = DockerBackend(tmp_path / "state", engine)
    try:
        second = other.prepare(plan, SETUP, on_step=steps.append)
        assert (second.cached, second.digest, len(steps)) == (True, first.digest, 1)
        assert list(second.base_tree.entries()) == list(first.base_tree.entries())
        with other.open(SPEC, second) as sandbox:
            assert sandbox.run(Command(line="cat made")).stdout.kept == b"made\n"
    finally:
        other.close()


def test_removed_image_is_built_again(docker: DockerBackend, engine: Engine, source: Path) -> None:
    first = docker.prepare(make_plan(source, "echo made > made"), SETUP, on_step=ignore)
    engine.output("image", "rm", "--force", first.details["prepared_image"])
    with pytest.raises(SandboxError, match=r"(?i)no such image") as caught, docker.open(SPEC, first):
        pass
    assert "ab run --resume" in caught.value.remedy
    state = Path(str(docker.layers._root)).parents[1]
    other = DockerBackend(state, engine)
    try:
        second = other.prepare(make_plan(source, "echo made > made"), SETUP, on_step=ignore)
        assert not second.cached
        with other.open(SPEC, second) as sandbox:
            assert sandbox.run(Command(line="cat made")).ok
    finally:
        other.close()


def test_failed_setup_runs_once_and_leaves_no_container(
    docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
) -> None:
    steps: list[SetupStep] = []
    for _ in range(2):
        with pytest.raises(SetupFailed, match="exit code 3"):
            docker.prepare(make_plan(source, "echo tried >&2; exit 3"), SETUP, on_step=steps.append)
    assert len({step.duration_sec for step in steps}) == 1
    assert containers_of(engine, tmp_path / "state") == []


def test_package_settings_and_secrets_stay_out_of_the_environment(
    docker: DockerBackend, engine: Engine, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:pa55word@index.invalid/simple")
    monkeypatch.setenv("https_proxy", "http://proxyuser:pr0xy@proxy.invalid:3128")
    plan = make_plan(source, "cat /etc/pip.conf; env; echo $TOKEN | wc -c", secrets={"TOKEN": "s3cret-value"})
    steps: list[SetupStep] = []
    prepared = docker.prepare(plan, SETUP, on_step=steps.append)
    assert b"index.invalid" in steps[0].stdout
    for secret in (b"pa55word", b"pr0xy", b"s3cret-value"):
        assert secret not in steps[0].stdout
    with docker.open(SPEC, prepared) as sandbox:
        done = sandbox.run(Command(line="cat /etc/pip.conf; env; ls -A /tmp"))
    assert b"invalid" not in done.stdout.kept
    image = json.dumps(engine.inspect_image(prepared.details["prepared_image"]))
    assert not any(secret in image for secret in ("pa55word", "pr0xy", "s3cret-value", "index.invalid"))


def test_secret_left_in_a_file_fails_setup(docker: DockerBackend, source: Path) -> None:
    plan = make_plan(source, "mkdir ~/.conf && echo $TOKEN > ~/.conf/netrc", secrets={"TOKEN": "s3cret-value"})
    with pytest.raises(SetupFailed, match=r"secret TOKEN in /home/agent/\.conf/netrc"):
        docker.prepare(plan, SETUP, on_step=ignore)


def test_equal_results_have_equal_digests(docker: DockerBackend, source: Path) -> None:
    command = "date +%N > ~/.cache-not; rm ~/.cache-not; echo x > x"
    first, second = (docker.prepare(make_plan(source, command, key=key), SETUP, on_step=ignore) for key in ("a", "b"))
    assert first.digest == second.digest
    assert first.digest != docker.prepare(make_plan(source, "echo y > x"), SETUP, on_step=ignore).digest


@pytest.mark.req("R-08")
def test_pruning_removes_the_image_unless_it_is_in_use(
    docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
) -> None:
    prepared = docker.prepare(make_plan(source, "head -c 1000000 /dev/urandom > big"), SETUP, on_step=ignore)
    image = prepared.details["prepared_image"]
    (item,) = [item for item in contents(tmp_path / "state") if item.kind == "prepared"]
    assert item.in_use
    assert 1_000_000 <= item.bytes < 20_000_000
    prune(tmp_path / "state", max_bytes=0)
    assert engine.inspect_image(image)["Id"] == image
    docker.close()
    prune(tmp_path / "state", max_bytes=0)
    with pytest.raises(NoSuchImage):
        engine.inspect_image(image)


def test_python_version_that_the_image_lacks_is_named_with_the_fix(docker: DockerBackend, source: Path) -> None:
    steps: list[SetupStep] = []
    plan = make_plan(source, "echo never run")
    with pytest.raises(SetupFailed, match=r"environment\.python is 3\.99, but image \S+ has Python 3\.\d+") as caught:
        docker.prepare(plan, replace(SETUP, python="3.99"), on_step=steps.append)
    assert "set environment.docker_image to an image with Python 3.99" in caught.value.remedy
    assert steps == []
    assert docker.prepare(plan, SETUP, on_step=ignore).backend == "docker"
