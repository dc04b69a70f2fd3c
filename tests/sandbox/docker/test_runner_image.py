"""The runner image: its content, its user, and a tag that always names the same content."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.sandbox.docker.engine import Engine, NoSuchImage
from agentbench.sandbox.docker.images import Images
from tests.sandbox.conftest import SPEC

ROOT = Path(__file__).parents[3]
IMAGE = re.compile(r"(agentbench(?:-test)?/py-runner:1-[0-9a-f]{12}) (sha256:[0-9a-f]{64})\n")

pytestmark = [pytest.mark.req("R-07"), pytest.mark.component]


@pytest.fixture(scope="module")
def base(engine: Engine) -> str:
    """The base of the runner image, which is not built again."""
    names = engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/debian").split()
    if not names:
        pytest.skip("the docker engine has no Debian root of scripts/runner-image")
    return names[0]


@pytest.fixture
def changed_checkout(tmp_path: Path, engine: Engine) -> Iterator[Path]:
    """A checkout with a changed Dockerfile. Images built from it are removed."""
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    (tmp_path / "scripts").mkdir()
    script = (ROOT / "scripts/runner-image").read_text()
    # Under another name, because a task without an image uses the newest runner image.
    (tmp_path / "scripts/runner-image").write_text(script.replace("NAME=agentbench/", "NAME=agentbench-test/"))
    (tmp_path / "scripts/runner-image").chmod(0o755)
    with (tmp_path / "docker/py-runner/Dockerfile").open("a") as file:
        file.write("LABEL changed=yes\n")
    yield tmp_path
    for image in engine.output("image", "ls", "--quiet", "agentbench-test/py-runner").split():
        engine.run("image", "rm", "--force", image)


def build(checkout: Path, *arguments: str) -> tuple[str, str]:
    done = subprocess.run(
        [checkout / "scripts/runner-image", *arguments], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    match = IMAGE.fullmatch(done.stdout)
    assert match is not None, done.stdout
    return match[1], match[2]


def test_tag_depends_on_the_content(engine: Engine, base: str, changed_checkout: Path) -> None:
    name, digest = build(ROOT, "--base", base)
    assert build(ROOT, "--base", base) == (name, digest)
    other_name, other_digest = build(changed_checkout, "--base", base)
    assert other_name.partition(":")[2] != name.partition(":")[2]
    assert other_digest != digest
    assert engine.inspect_image(name)["Id"] == digest
    with pytest.raises(NoSuchImage):
        engine.inspect_image("agentbench/py-runner:latest")


def test_image_has_tools_and_an_ordinary_user_with_its_own_folders(engine: Engine) -> None:
    name, image = Images(engine, Path("/nonexistent"))._resolve(SPEC)
    assert name.startswith("agentbench/py-runner:1-")
    assert image["Config"]["User"] == "1000:1000"
    line = (
        "id -u; python3 -c 'import sys, venv, ensurepip; print(sys.version_info >= (3, 11))'; which pip python; "
        "for p in git gcc make rg pgrep; do $p --version | head -n 1; done; touch /workspace/x /opt/env/x && echo own; "
        "touch /usr/x || echo kept"
    )
    done = engine.run("run", "--rm", "--network", "none", "--pull", "never", image["Id"], "sh", "-c", line)
    output = done.stdout.kept.decode()
    assert output.startswith("1000\nTrue\n/opt/env/bin/pip\n/opt/env/bin/python\n"), output
    for word in ("git version", "gcc", "GNU Make", "ripgrep", "pgrep"):
        assert word in output
    assert output.endswith("own\nkept\n")


@pytest.mark.parametrize("arguments", [("--nonsense",), ("--base",)])
def test_bad_arguments_print_the_usage(engine: Engine, arguments: tuple[str, ...]) -> None:
    done = subprocess.run([ROOT / "scripts/runner-image", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "base" in done.stderr


def test_missing_engine_is_reported_with_the_command(tmp_path: Path) -> None:
    if shutil.which("docker") is None:
        pytest.skip("docker is not installed")
    env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    done = subprocess.run([ROOT / "scripts/runner-image"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "scripts/docker-engine start" in done.stderr
