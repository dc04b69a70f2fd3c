from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agentbench.sandbox.docker.engine import find_engine
from agentbench.tools.rules import Rules
from tests.sandbox.conftest import remove_images, require_docker, state
from tests.tools.project_sandboxes import ProjectSandboxes, open_project_sandboxes
from tests.tools.recorded_session import Clock, FolderSandbox, RecordedSession, record_session

__all__ = ["state"]

OpenSession = Callable[..., RecordedSession]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def folder_sandbox(workspace: Path) -> Iterator[FolderSandbox]:
    sandbox = FolderSandbox(workspace)
    yield sandbox
    sandbox.close()


@pytest.fixture
def open_session(folder_sandbox: FolderSandbox, tmp_path: Path) -> Iterator[OpenSession]:
    """Return a function that opens a session on a plain folder, without a sandbox."""
    with ExitStack() as stack:

        def opened(rules: Rules | None = None, clock: Clock | None = None) -> RecordedSession:
            @contextmanager
            def managed() -> Iterator[RecordedSession]:
                yield from record_session(folder_sandbox, tmp_path, rules or Rules(), clock=clock)

            return stack.enter_context(managed())

        yield opened


@pytest.fixture(scope="session")
def sandboxes(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectSandboxes]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with open_project_sandboxes(state, tmp_path_factory.mktemp("source")) as opened:
        yield opened


@pytest.fixture(scope="session", params=["bwrap", "docker"])
def any_sandboxes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProjectSandboxes]:
    """Sandboxes of each backend."""
    if request.param == "bwrap":
        yield request.getfixturevalue("sandboxes")
        return
    require_docker()
    own = tmp_path_factory.mktemp("docker-state")
    with open_project_sandboxes(own, tmp_path_factory.mktemp("source"), "docker") as opened:
        yield opened
    remove_images(find_engine(), own)
