from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agentbench.sandbox.docker.engine import find_engine
from agentbench.tools.rules import Rules
from tests.sandbox.conftest import remove_images, require_docker, state
from tests.tools.boxes import Boxes, open_boxes
from tests.tools.places import Clock, FolderSandbox, Place, open_place

__all__ = ["state"]

OpenPlace = Callable[..., Place]


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
def place(folder_sandbox: FolderSandbox, tmp_path: Path) -> Iterator[OpenPlace]:
    """Return a function that opens a session on a plain folder, without a sandbox."""
    with ExitStack() as stack:

        def opened(rules: Rules | None = None, clock: Clock | None = None) -> Place:
            @contextmanager
            def managed() -> Iterator[Place]:
                yield from open_place(folder_sandbox, tmp_path, rules or Rules(), clock=clock)

            return stack.enter_context(managed())

        yield opened


@pytest.fixture(scope="session")
def boxes(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    with open_boxes(state, tmp_path_factory.mktemp("source")) as opened:
        yield opened


@pytest.fixture(scope="session", params=["bwrap", "docker"])
def any_boxes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    """Sandboxes of each backend."""
    if request.param == "bwrap":
        yield request.getfixturevalue("boxes")
        return
    require_docker()
    own = tmp_path_factory.mktemp("docker-state")
    with open_boxes(own, tmp_path_factory.mktemp("source"), "docker") as opened:
        yield opened
    remove_images(find_engine(), own)
