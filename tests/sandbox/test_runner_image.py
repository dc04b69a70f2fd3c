"""The runner image: what is in it, whose it is, and that its name never comes to mean something else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.sandbox.docker.engine import Engine, NoSuchImage, find_engine
from agentbench.sandbox.docker.images import Images
from tests.sandbox.conftest import SPEC, require_docker

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"(agentbench(?:-test)?/py-runner:1-[0-9a-f]{12}) (sha256:[0-9a-f]{64})\n")

pytestmark = pytest.mark.req("R-07")


@pytest.fixture(scope="module")
def engine() -> Engine:
    require_docker()
    return find_engine()


@pytest.fixture(scope="module")
def base(engine: Engine) -> str:
    """The image that the runner image stands on, without making it anew."""
    listed = engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/debian").split()
    if not listed:
        pytest.skip("the docker engine has no Debian root of scripts/runner-image")
    return listed[0]


@pytest.fixture
def changed(tmp_path: Path, engine: Engine) -> Iterator[Path]:
    """A checkout whose Dockerfile was changed; what is built from it goes again."""
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    (tmp_path / "scripts").mkdir()
    script = (ROOT / "scripts/runner-image").read_text()
    # Under another name: whoever needs a runner image takes the newest there is.
    (tmp_path / "scripts/runner-image").write_text(script.replace("NAME=agentbench/", "NAME=agentbench-test/"))
    (tmp_path / "scripts/runner-image").chmod(0o755)
    with (tmp_path / "docker/py-runner/Dockerfile").open("a") as file:
        file.write("LABEL changed=yes\n")
    yield tmp_path
    for image in engine.output("image", "ls", "--quiet", "agentbench-test/py-runner").split():
        engine.run("image", "rm", "--force", image)


def built(checkout: Path, *arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [checkout / "scripts/runner-image", *arguments], capture_output=True, text=True, check=False, timeout=110
    )
    assert done.returncode == 0, done.stderr
    found = IMAGE.fullmatch(done.stdout)
    assert found is not None, done.stdout
    return found[1], found[2]


def test_name_says_what_went_in_and_stays_what_it_is(engine: Engine, base: str, changed: Path) -> None:
    name, digest = built(ROOT, "--base", base)
    assert built(ROOT, "--base", base) == (name, digest)
    other, its = built(changed, "--base", base)
    assert other.partition(":")[2] != name.partition(":")[2]
    assert its != digest
    assert engine.inspect_image(name)["Id"] == digest
    with pytest.raises(NoSuchImage):
        engine.inspect_image("agentbench/py-runner:latest")


def test_tools_an_ordinary_user_and_folders_of_its_own(engine: Engine) -> None:
    named, image = Images(engine, Path("/nonexistent"))._resolve(SPEC)
    assert named.startswith("agentbench/py-runner:1-")
    assert image["Config"]["User"] == "1000:1000"
    line = (
        "id -u; python3 -c 'import sys, venv, ensurepip; print(sys.version_info >= (3, 11))'; which pip python; "
        "for p in git gcc make rg pgrep; do $p --version | head -n 1; done; touch /workspace/x /opt/env/x && echo own; "
        "touch /usr/x || echo kept"
    )
    done = engine.run("run", "--rm", "--network", "none", "--pull", "never", image["Id"], "sh", "-c", line)
    said = done.stdout.kept.decode()
    assert said.startswith("1000\nTrue\n/opt/env/bin/pip\n/opt/env/bin/python\n"), said
    for word in ("git version", "gcc", "GNU Make", "ripgrep", "pgrep"):
        assert word in said
    assert said.endswith("own\nkept\n")


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--base",)])
def test_bad_arguments_are_told(engine: Engine, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([ROOT / "scripts/runner-image", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "base" in done.stderr


def test_no_engine_is_told_with_the_command(tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run([ROOT / "scripts/runner-image"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "scripts/docker-engine start" in done.stderr
