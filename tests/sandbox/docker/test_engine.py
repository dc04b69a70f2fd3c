"""Finding the docker engine, and messages when it cannot be used."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.registry import open_backend
from tests.sandbox.conftest import require_docker

pytestmark = pytest.mark.component


@pytest.mark.req("R-05")
def test_no_running_engine_exits_with_3_and_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_docker()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxUnavailable, match="no docker engine is running") as caught:
        open_backend("docker", state=tmp_path, needs_image=False)
    assert caught.value.exit_code == 3
    assert "docker-engine start" in caught.value.remedy
    with pytest.raises(SandboxUnavailable, match="names an image, which requires docker") as caught:
        open_backend("auto", state=tmp_path, needs_image=True)
    assert "--sandbox bwrap" in caught.value.remedy


def test_missing_docker_program_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="docker is not installed"):
        open_backend("docker", state=tmp_path, needs_image=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_missing_permission_is_reported_with_a_remedy(engine: Engine, tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(
        "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket at unix:///x' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="no permission") as caught:
        Engine(str(program))
    assert "usermod -aG docker" in caught.value.remedy


def test_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch, engine: Engine, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "facts", replace(engine.facts, address="ssh://user@example.invalid"))
    with pytest.raises(SandboxUnavailable, match="another machine"):
        DockerBackend(tmp_path, engine)
