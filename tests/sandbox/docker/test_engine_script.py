"""`scripts/docker-engine`: a private engine, also stopped while a sandbox is running."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxLost, SandboxUnavailable
from agentbench.policy.host_trouble import host_troubles
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.protocol import Limits, Phase, Sandbox, SandboxSpec
from tests.sandbox.conftest import require_docker

pytestmark = pytest.mark.component

SCRIPT = Path(__file__).parents[3] / "scripts/docker-engine"
IMAGE = "agentbench-test/tiny:1"
SPEC = SandboxSpec(Phase.AGENT, Limits(memory_mb=128, disk_mb=32), image=IMAGE)
LIBRARY = re.compile(r"(/\S+\.so\S*)")


@pytest.fixture
def own_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an engine that may be stopped, with an image of this machine's Python and shell."""
    require_docker()
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("starting an engine needs root and dockerd")
    run = Path(f"/run/ab-test-{os.getpid()}")
    env = {**os.environ, "AB_ENGINE_DIR": str(tmp_path / "engine"), "AB_ENGINE_RUN": str(run)}
    # No other engine may answer instead.
    env["DOCKER_HOST"] = f"unix://{run}/docker.sock"
    monkeypatch.setenv("AB_ENGINE_DIR", env["AB_ENGINE_DIR"])
    monkeypatch.setenv("AB_ENGINE_RUN", env["AB_ENGINE_RUN"])
    monkeypatch.setenv("DOCKER_HOST", env["DOCKER_HOST"])
    started = subprocess.run([SCRIPT, "start-own"], env=env, capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    try:
        assert started.stdout.strip() == f"export DOCKER_HOST=unix://{run}/docker.sock"
        subprocess.run(["docker", "import", "-", IMAGE], input=_tiny_root(), env=env, check=True, capture_output=True)
        yield env["DOCKER_HOST"]
    finally:
        subprocess.run([SCRIPT, "stop"], env=env, check=True, capture_output=True)
        shutil.rmtree(run, ignore_errors=True)


@pytest.mark.req("R-16")
def test_engine_that_stops_under_a_sandbox_is_a_harness_error(own_engine: str, tmp_path: Path) -> None:
    backend = DockerBackend(tmp_path / "state")
    try:
        with backend.open(SPEC, None) as sandbox:
            assert sandbox.run(Command(line="echo alive")).stdout.kept == b"alive\n"
            subprocess.run([SCRIPT, "stop"], check=True, capture_output=True)
            with pytest.raises(SandboxLost) as lost:
                _run_until_it_fails(sandbox)
            assert host_troubles(lost.value.evidence)
        with pytest.raises(SandboxUnavailable, match="no docker engine is running"), backend.open(SPEC, None):
            pass
    finally:
        backend.close()
    assert not (tmp_path / "state/live").exists() or list((tmp_path / "state/live").iterdir()) == []


def test_start_is_idempotent_and_stop_ends_only_the_private_engine(own_engine: str) -> None:
    again = subprocess.run([SCRIPT, "start"], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == f"export DOCKER_HOST={own_engine}"
    assert "an engine is running" in again.stderr
    for message in ("stopped", "the private engine is not running"):
        done = subprocess.run([SCRIPT, "stop"], capture_output=True, text=True, check=True)
        assert message in done.stderr


def _run_until_it_fails(sandbox: Sandbox) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        sandbox.run(Command(line="true"))
        time.sleep(0.05)


def _tiny_root() -> bytes:
    """A root file system with the shell, the system's interpreter and its library, and the libraries they need."""
    python = Path("/usr/bin/python3").resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": "/usr"}))
    paths = {Path("/bin/sh").resolve(), python, Path("/usr/bin/sleep").resolve()}
    extensions = list((library / "lib-dynload").glob("*.so"))
    for program in [*paths, *extensions]:
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        paths |= {Path(path).resolve() for path in LIBRARY.findall(linked)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for link in ("bin", "lib", "lib64"):
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, f"usr/{link}"
            tar.addfile(info)
        for path in sorted(paths):
            tar.add(path, str(path)[1:])
            if ".so" in path.name or "ld-" in path.name:
                _link_names(tar, path)
        for name, target in (("usr/bin/sh", Path("/bin/sh").resolve().name), ("usr/bin/python3", python.name)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        tar.add(library, str(library)[1:], filter=_needed)
        for folder in ("tmp", "var/tmp", "run", "etc", "dev", "proc", "sys", "opt", "home"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
    return buffer.getvalue()


def _link_names(tar: tarfile.TarFile, path: Path) -> None:
    """Add the names under which programs look for a library, such as `libc.so.6`."""
    for other in path.parent.iterdir():
        if other.is_symlink() and other.resolve() == path:
            info = tarfile.TarInfo(str(other)[1:])
            info.type, info.linkname = tarfile.SYMTYPE, str(path)
            tar.addfile(info)
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if loader.exists() and loader.resolve() == path:
        info = tarfile.TarInfo("usr/lib64/ld-linux-x86-64.so.2")
        info.type, info.linkname = tarfile.SYMTYPE, str(path)
        tar.addfile(info)


def _needed(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    unneeded = ("__pycache__", "/test", "/idlelib", "/lib2to3", "/tkinter", "/config-", "/ensurepip", "/pydoc_data")
    return None if any(part in info.name for part in unneeded) else info
