"""A cache that is damaged, full, gone or on another file system: made again or told, never used as if it were whole."""

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
OTHER_FILE_SYSTEM = Path("/dev/shm")

pytestmark = pytest.mark.req("R-08")


def opened(backend: Backend, state: Path) -> contextlib.closing[Backend]:
    return contextlib.closing(open_backend(backend.name, state=state, needs_image=False))


def plan(source: Path) -> SetupPlan:
    return SetupPlan("faults", source, ("echo made > made; date +%s.%N > stamp",), (), 60)


def build_of(state: Path) -> Path:
    (link,) = state.glob("layers/*/prepared/*/current")
    return link.resolve()


def _cut_short(build: Path) -> None:
    (build / "tree/workspace/made").write_text("")


def _removed_file(build: Path) -> None:
    (build / "tree/workspace/src/app.py").unlink()


def _garbage(build: Path) -> None:
    (build / "meta.json").write_bytes(b"\0\xff{")


def _another_shape(build: Path) -> None:
    (build / "meta.json").write_text(json.dumps({"bytes": 1}))


def _no_object(build: Path) -> None:
    (build / "meta.json").write_text("[]")


def _no_tree(build: Path) -> None:
    shutil.rmtree(build / "tree")


def _nothing_at_all(build: Path) -> None:
    shutil.rmtree(build)


DAMAGE: list[Callable[[Path], None]] = [
    *(_cut_short, _another_shape, _nothing_at_all),
    *(_removed_file, _garbage, _no_object, _no_tree),
]


def test_damaged_environment_is_prepared_anew(backend: Backend, own_state: Path, source: Path) -> None:
    with opened(backend, own_state) as first:
        first.prepare(plan(source), SETUP, on_step=lambda _: None)
    # The store is the same; an engine takes ten times as long for each.
    for damage in DAMAGE if backend.name == "bwrap" else DAMAGE[:3]:
        damage(build_of(own_state))
        with opened(backend, own_state) as second:
            again = second.prepare(plan(source), SETUP, on_step=lambda _: None)
            assert not again.cached, damage
            with second.open(SPEC, again) as box:
                assert box.run(Command(line="cat made src/app.py")).stdout.kept == b"made\nprint('app')\n"
    with opened(backend, own_state) as third:
        assert third.prepare(plan(source), SETUP, on_step=lambda _: None).cached


@pytest.mark.parametrize("backend", ["bwrap"], indirect=True)
def test_layer_that_vanishes_under_a_running_harness_is_told_and_is_ours(
    backend: Backend, own_state: Path, source: Path
) -> None:
    with opened(backend, own_state) as first:
        prepared = first.prepare(plan(source), SETUP, on_step=lambda _: None)
        shutil.rmtree(build_of(own_state))
        with pytest.raises(SandboxError, match="no such file or folder"):
            first.open(SPEC, prepared).__enter__()
    with opened(backend, own_state) as second:
        assert not second.prepare(plan(source), SETUP, on_step=lambda _: None).cached


def test_cache_on_another_file_system(backend: Backend, source: Path) -> None:
    if not OTHER_FILE_SYSTEM.is_dir() or OTHER_FILE_SYSTEM.stat().st_dev == source.stat().st_dev:
        pytest.skip("no other file system to write to")
    with tempfile.TemporaryDirectory(dir=OTHER_FILE_SYSTEM, prefix="ab-test-") as folder:
        try:
            for cached in (False, True):
                with opened(backend, Path(folder)) as one:
                    prepared = one.prepare(plan(source), SETUP, on_step=lambda _: None)
                    assert prepared.cached is cached
                    with one.open(SPEC, prepared) as box:
                        done = box.run(Command(line="cat made; rm -r src; mv keep kept; ls; echo x > ~/x"))
                        assert done.stdout.kept == b"made\nREADME\nkept\nlink\nmade\nrun.sh\nstamp\n"
                        paths = {entry.path for entry in box.tree().entries()}
                        assert b"kept/file" in paths
                        assert b"src/app.py" not in paths
        finally:
            if backend.name == "docker":
                remove_images(find_engine(), Path(folder))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small file system")
def test_full_cache_is_our_error_with_the_reason_and_leaves_nothing(
    backend: Backend, tmp_path: Path, source: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    big = tmp_path / "source"
    shutil.copytree(source, big, symlinks=True)
    (big / "large").write_bytes(os.urandom(4 << 20))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", small], check=True)
    try:
        with opened(backend, small) as one, pytest.raises(SandboxError, match=r"(?i)no space left"):
            one.prepare(plan(big), SETUP, on_step=lambda _: None)
        assert list((small / "live").iterdir()) == []
        assert list(small.glob("layers/*/*/*/.building-*")) == []
        assert list(small.glob("layers/*/*/*/failed.json")) == []
    finally:
        subprocess.run(["umount", small], check=True)
        if backend.name == "docker":
            remove_images(find_engine(), small)
