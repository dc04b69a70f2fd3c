"""Backends under test. They share one state folder per session: the interpreter's layer takes seconds to build."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command, Completed
from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.docker import unused_images
from agentbench.sandbox.docker.engine import Engine, find_engine
from agentbench.sandbox.docker.images import Images
from agentbench.sandbox.protocol import Backend, Limits, Phase, Prepared, Sandbox, SandboxSpec, SetupPlan
from agentbench.sandbox.registry import open_backend
from tests.session_state import shared_state

SMALL = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=64, inodes=20_000)
SPEC = SandboxSpec(Phase.AGENT, SMALL, env={"DECLARED": "yes"})

Open = Callable[..., Sandbox]


def require_docker() -> None:
    """Skip the test if docker does not work, with the reason. In CI that is a failure."""
    try:
        Images(find_engine(), Path()).check(SPEC)
    except SandboxUnavailable as error:
        text = f"docker cannot be used: {error.message} ({error.remedy})"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_state(tmp_path_factory, "sandbox-state")


def remove_images(engine: Engine, state: Path) -> None:
    """Remove the environments committed for a state folder, and images prepared from images that are gone.

    The image prepared from the runner image stays for the next session, until its state folder is removed.
    """
    unused_images.remove(
        engine, [image for image in unused_images.images_of(engine, state) if image.kind in {"seeded", "prepared"}]
    )
    unused_images.remove_abandoned(engine)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a module's tests on the backends in its BACKENDS, by default on bubblewrap only."""
    parametrized = any(mark.args[0] == "backend" for mark in metafunc.definition.iter_markers("parametrize"))
    if "backend" in metafunc.fixturenames and not parametrized:
        names = getattr(metafunc.module, "BACKENDS", ["bwrap"])
        metafunc.parametrize("backend", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest, state: Path) -> Iterator[Backend]:
    if request.param == "docker":
        require_docker()
    elif shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    user = state / "users" / f"{request.param}-{os.getpid()}"
    user.parent.mkdir(parents=True, exist_ok=True)
    user.touch()
    backend = open_backend(request.param, state=state, needs_image=False)
    yield backend
    backend.close()
    user.unlink()
    # Workers share one state folder. The last one removes docker's images, which lie outside of it.
    if request.param == "docker" and not list(user.parent.glob("docker-*")):
        remove_images(find_engine(), state)


@pytest.fixture
def own_backend(state: Path) -> Iterator[BwrapBackend]:
    """A bubblewrap backend of one test, whose processes it may stop or kill."""
    backend = BwrapBackend(state)
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small base repository with folders, a program and a symlink."""
    folder = tmp_path_factory.mktemp("source")
    (folder / "src").mkdir()
    (folder / "src/app.py").write_text("print('app')\n")
    (folder / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "README").write_text("read me\n")
    (folder / "link").symlink_to("README")
    (folder / "keep").mkdir()
    (folder / "keep/file").write_text("kept\n")
    return folder


@pytest.fixture(scope="session")
def prepared(backend: Backend, source: Path) -> Prepared:
    plan = SetupPlan(
        key="conformance",
        source=source,
        commands=(
            "echo built > artefact; mkdir -p ~/.config && echo setting > ~/.config/tool",
            "printf '#!/bin/sh\\necho tool\\n' > /opt/env/bin/tool && chmod +x /opt/env/bin/tool",
        ),
        capture=("python --version",),
        timeout_sec=120,
    )
    return backend.prepare(plan, replace(SPEC, phase=Phase.SETUP), on_step=lambda _: None)


@pytest.fixture
def sandbox(backend: Backend, prepared: Prepared) -> Iterator[Sandbox]:
    with backend.open(SPEC, prepared) as opened:
        yield opened


@pytest.fixture
def sh(sandbox: Sandbox) -> Callable[..., Completed]:
    """Run one shell line in `sandbox`."""

    def run(line: str, **options: object) -> Completed:
        return sandbox.run(Command(line=line, **{"timeout_sec": 60.0, **options}))  # type: ignore[arg-type]

    return run


@pytest.fixture
def own_state(backend: Backend, prepared: Prepared, state: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder of this test alone, which reuses the interpreter layers of the session."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "etc").symlink_to(state / "etc")
    for root in (state / "layers").glob("u*"):
        (folder / "layers" / root.name).mkdir(parents=True)
        (folder / "layers" / root.name / "python").symlink_to(root / "python")
    yield folder
    if backend.name == "docker":
        remove_images(find_engine(), folder)
