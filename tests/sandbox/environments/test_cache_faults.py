"""A cache that is damaged, full or on another file system: rebuilt or reported, never used as if it were complete."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.protocol import Backend, Phase, SetupPlan
from agentbench.sandbox.registry import open_backend
from tests.sandbox.conftest import SPEC, remove_images

BACKENDS = ["bwrap", "docker"]
SETUP = replace(SPEC, phase=Phase.SETUP)
WRITABLE = (Path("/dev/shm"), Path("/tmp"))

pytestmark = [pytest.mark.req("R-08"), pytest.mark.component]


def open_state(backend: Backend, state: Path) -> contextlib.closing[Backend]:
    return contextlib.closing(open_backend(backend.name, state=state, needs_image=False))


def make_plan(source: Path) -> SetupPlan:
    return SetupPlan("faults", source, ("echo made > made; date +%s.%N > stamp",), (), 60)


def current_build(state: Path) -> Path:
    (link,) = state.glob("layers/*/prepared/*/current")
    return link.resolve()


def _truncate_file(build: Path) -> None:
    (build / "tree/workspace/made").write_text("")


def _remove_file(build: Path) -> None:
    (build / "tree/workspace/src/app.py").unlink()


def _corrupt_metadata(build: Path) -> None:
    (build / "meta.json").write_bytes(b"\0\xff{")


def _drop_metadata_keys(build: Path) -> None:
    (build / "meta.json").write_text(json.dumps({"bytes": 1}))


def _replace_metadata_by_a_list(build: Path) -> None:
    (build / "meta.json").write_text("[]")


def _remove_tree(build: Path) -> None:
    shutil.rmtree(build / "tree")


def _remove_build(build: Path) -> None:
    shutil.rmtree(build)


DAMAGE: list[Callable[[Path], None]] = [
    _truncate_file,
    _drop_metadata_keys,
    _remove_build,
    _remove_file,
    _corrupt_metadata,
    _replace_metadata_by_a_list,
    _remove_tree,
]


def test_damaged_environment_is_built_again(backend: Backend, own_state: Path, source: Path) -> None:
    with open_state(backend, own_state) as first:
        first.prepare(make_plan(source), SETUP, on_step=lambda _: None)
    # Both backends use the same store, and docker takes ten times as long.
    for damage in DAMAGE if backend.name == "bwrap" else DAMAGE[:3]:
        damage(current_build(own_state))
        with open_state(backend, own_state) as second:
            rebuilt = second.prepare(make_plan(source), SETUP, on_step=lambda _: None)
            assert not rebuilt.cached, damage
            with second.open(SPEC, rebuilt) as sandbox:
                assert sandbox.run(Command(line="cat made src/app.py")).stdout.kept == b"made\nprint('app')\n"
    with open_state(backend, own_state) as third:
        assert third.prepare(make_plan(source), SETUP, on_step=lambda _: None).cached


@pytest.mark.parametrize("backend", ["bwrap"], indirect=True)
def test_layer_removed_under_a_running_harness_is_a_harness_error(
    backend: Backend, own_state: Path, source: Path
) -> None:
    with open_state(backend, own_state) as first:
        prepared = first.prepare(make_plan(source), SETUP, on_step=lambda _: None)
        shutil.rmtree(current_build(own_state))
        with pytest.raises(SandboxError, match="no such file or folder"):
            first.open(SPEC, prepared).__enter__()
    with open_state(backend, own_state) as second:
        assert not second.prepare(make_plan(source), SETUP, on_step=lambda _: None).cached


def test_cache_may_be_on_another_file_system(backend: Backend, source: Path) -> None:
    used = source.stat().st_dev
    other = next((path for path in WRITABLE if path.is_dir() and path.stat().st_dev != used), None)
    if other is None:
        pytest.skip("no other file system to write to")
    with tempfile.TemporaryDirectory(dir=other, prefix="ab-test-") as folder:
        try:
            for cached in (False, True):
                with open_state(backend, Path(folder)) as harness:
                    prepared = harness.prepare(make_plan(source), SETUP, on_step=lambda _: None)
                    assert prepared.cached is cached
                    with harness.open(SPEC, prepared) as sandbox:
                        done = sandbox.run(Command(line="cat made; rm -r src; mv keep kept; ls; echo x > ~/x"))
                        assert done.stdout.kept == b"made\nREADME\nkept\nlink\nmade\nrun.sh\nstamp\n"
                        paths = {entry.path for entry in sandbox.tree().entries()}
                        assert b"kept/file" in paths
                        assert b"src/app.py" not in paths
        finally:
            if backend.name == "docker":
                remove_images(find_engine(), Path(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_full_cache_is_a_harness_error_and_leaves_no_files(backend: Backend, tmp_path: Path, source: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    big = tmp_path / "source"
    shutil.copytree(source, big, symlinks=True)
    (big / "large").write_bytes(os.urandom(4 << 20))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], check=True)
    try:
        with open_state(backend, small) as harness, pytest.raises(SandboxError, match=r"(?i)no space left"):
            harness.prepare(make_plan(big), SETUP, on_step=lambda _: None)
        assert list((small / "live").iterdir()) == []
        assert list(small.glob("layers/*/*/*/.building-*")) == []
        assert list(small.glob("layers/*/*/*/failed.json")) == []
    finally:
        subprocess.run(["umount", small], check=True)
        if backend.name == "docker":
            remove_images(find_engine(), small)
