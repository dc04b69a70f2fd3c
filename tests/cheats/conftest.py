"""Grading environments for the submissions: bubblewrap, and docker if an engine is available."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agentbench.execution.lab import Lab
from agentbench.sandbox.docker.engine import find_engine
from tests.acceptance.conftest import tasks
from tests.acceptance.toy import TaskFactory
from tests.sandbox.conftest import remove_images, require_docker
from tests.session_state import session_folder

__all__ = ["docker_tasks", "tasks"]


@pytest.fixture(scope="session")
def docker_tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaskFactory]:
    """Like `tasks`, in containers. The last worker removes the images created for it."""
    require_docker()
    shared = session_folder(tmp_path_factory) / "docker-oracle-state"
    user = shared / "users" / str(os.getpid())
    user.parent.mkdir(parents=True, exist_ok=True)
    user.touch()
    with Lab(sandbox="docker", state=shared) as lab:
        yield TaskFactory(lab)
    user.unlink()
    if not list(user.parent.iterdir()):
        remove_images(find_engine(), shared)
