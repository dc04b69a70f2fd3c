"""Fixtures and helpers for tests of the docker backend."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine, find_engine
from agentbench.sandbox.protocol import Phase, SetupPlan, SetupStep
from tests.sandbox.conftest import SPEC, remove_images, require_docker

SETUP = replace(SPEC, phase=Phase.SETUP)


@pytest.fixture(scope="module")
def engine() -> Engine:
    require_docker()
    return find_engine()


@pytest.fixture
def docker(engine: Engine, tmp_path: Path) -> Iterator[DockerBackend]:
    """A backend with its own state folder, `tmp_path / "state"`."""
    backend = DockerBackend(tmp_path / "state", engine)
    yield backend
    backend.close()
    remove_images(engine, tmp_path / "state")


def make_plan(source: Path, *commands: str, key: str = "k", **options: object) -> SetupPlan:
    values: dict[str, object] = {"timeout_sec": 120.0, "capture": (), **options}
    return SetupPlan(key=key, source=source, commands=commands, **values)  # type: ignore[arg-type]


def ignore(_: SetupStep) -> None:
    pass


def containers_of(engine: Engine, state: Path) -> list[str]:
    of_state = f"label={labels.STATE}={labels.state_hash(state)}"
    return engine.output("ps", "--all", "--quiet", "--no-trunc", "--filter", of_state).split()


def runner_image(engine: Engine) -> str:
    return engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/py-runner").split()[0]


def label_changes(values: dict[str, str]) -> list[str]:
    """Options of `docker import` that set labels."""
    return [part for name, value in values.items() for part in ("--change", f"LABEL {name}={value}")]


def derived(image: str) -> bytes:
    """A Dockerfile that builds on `image`."""
    return f"FROM {image}\nENV MINE=yes\n".encode()


def wait_until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_with(words: bytes) -> list[str]:
    """Ids of processes whose command line contains `words`."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if words in (folder / "cmdline").read_bytes():
                pids.append(folder.name)
        except OSError:
            continue
    return pids


def root_without_python(*, with_shell: bool) -> bytes:
    """A root file system with a shell and its libraries, or with nothing at all."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        if with_shell:
            linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
            paths = [Path(path) for path in ["/bin/sh", *re.findall(r"(/\S+) \(0x", linked)]]
            for folder in sorted({parent for path in paths for parent in path.parents} - {Path("/")}):
                _add_folder(tar, str(folder)[1:])
            for path in paths:
                tar.add(path.resolve(), str(path)[1:])
    return buffer.getvalue()


def busybox_root() -> bytes:
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("busybox is not installed")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" not in linked.stderr + linked.stdout:
        pytest.skip("busybox is dynamically linked, so it cannot be an image on its own")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add_folder(tar, "bin")
        tar.add(Path(program).resolve(), "bin/busybox")
        applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in sorted(set(applets) - {"busybox"}):
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
    return buffer.getvalue()


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    """Some engines create folders that an archive does not list with access for their owner only."""
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)
