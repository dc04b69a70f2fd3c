"""Backends under test, one state folder for the whole session (the interpreter's layer takes seconds to build)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command, Completed
from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.docker import unused_images
from agentbench.sandbox.docker.engine import Engine, find_engine
from agentbench.sandbox.docker.images import Images
from agentbench.sandbox.protocol import Backend, Limits, Phase, Prepared, Sandbox, SandboxSpec, SetupPlan
from agentbench.sandbox.registry import open_backend

SMALL = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=64, inodes=20_000)
SPEC = SandboxSpec(Phase.AGENT, SMALL, env={"DECLARED": "yes"})

Open = Callable[..., Sandbox]


def require_docker() -> None:
    """Skip with the reason where docker is not to be had; in CI that is a failure."""
    try:
        Images(find_engine(), Path()).check(SPEC)
    except SandboxUnavailable as error:
        text = f"docker cannot be used: {error.message} ({error.remedy})"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    # Under xdist each worker has a folder of its own below the session's.
    root = base.parent if base.name.startswith("popen-") else base
    return root / "sandbox-state"


def remove_images(engine: Engine, state: Path) -> None:
    """The environments that were committed for a state folder, and what was made ready from images that are gone.

    What was made ready from the runner image stays for the next session, and goes when its state folder has.
    """
    unused_images.remove(
        engine, [image for image in unused_images.images_of(engine, state) if image.kind in {"seeded", "prepared"}]
    )
    unused_images.remove_abandoned(engine)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A module's tests run on the backends it names in BACKENDS; bubblewrap alone when it names none."""
    own = any(mark.args[0] == "backend" for mark in metafunc.definition.iter_markers("parametrize"))
    if "backend" in metafunc.fixturenames and not own:
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
    # Workers share one state; the last of them takes away what lies outside of it.
    if request.param == "docker" and not list(user.parent.glob("docker-*")):
        remove_images(find_engine(), state)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small R with what trees have: folders, a program, a link, a name that is not UTF-8."""
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
def box(backend: Backend, prepared: Prepared) -> Iterator[Sandbox]:
    with backend.open(SPEC, prepared) as opened:
        yield opened


@pytest.fixture
def sh(box: Sandbox) -> Callable[..., Completed]:
    """Run one shell line in `box`."""

    def run(line: str, **options: object) -> Completed:
        return box.run(Command(line=line, **{"timeout_sec": 60.0, **options}))  # type: ignore[arg-type]

    return run


@pytest.fixture
def own(backend: Backend, prepared: Prepared, state: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder of one test alone, with the interpreters' layers that are already there."""
    place = tmp_path / "state"
    place.mkdir()
    (place / "etc").symlink_to(state / "etc")
    for root in (state / "layers").glob("u*"):
        (place / "layers" / root.name).mkdir(parents=True)
        (place / "layers" / root.name / "python").symlink_to(root / "python")
    yield place
    if backend.name == "docker":
        remove_images(find_engine(), place)
