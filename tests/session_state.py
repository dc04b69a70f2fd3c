"""State folders of tests. They share the interpreter's layer, which takes four seconds of CPU time to build."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend

ROOT = Path(__file__).parents[1]


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of the session share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def once(folder: Path, name: str, make: Callable[[], Any]) -> Any:
    """Return the result of `make`, computed by whichever worker comes first."""
    result = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(result.read_text(encoding="utf-8"))


def shared_state(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the state folder of this name, which all workers share, with the interpreter's layer in it."""
    folder = session_folder(factory)
    once(folder, f"{name}-layer", lambda: link_interpreter_layer(factory, folder / name))
    return folder / name


def built_distributions(factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the sdist of this checkout, built once per session."""
    folder = session_folder(factory)
    once(folder, "dist", lambda: _build_distributions(folder / "dist"))
    return folder / "dist"


def _build_distributions(folder: Path) -> None:
    done = subprocess.run([ROOT / "scripts" / "wheel", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def link_interpreter_layer(factory: pytest.TempPathFactory, state: Path) -> None:
    """Link the interpreter's layer of this session into a new state folder, or copy it to another file system.

    Without bubblewrap there is none.
    """
    folder = session_folder(factory)
    built = folder / "interpreter-state"
    once(folder, built.name, lambda: _build_interpreter_layer(built))
    for layer in built.glob("layers/*/python"):
        target = state / layer.relative_to(built)
        target.parent.mkdir(parents=True)
        linked = layer.stat().st_dev == target.parent.stat().st_dev
        subprocess.run(["cp", "-al" if linked else "-a", layer, target], check=True)
        # Locks are not shared: another state's process would seem to use or build this layer.
        for lock in {path.resolve() for name in ("*/lock", "*/*/use") for path in target.glob(name)}:
            lock.unlink()
            lock.touch(0o600)


def _build_interpreter_layer(state: Path) -> None:
    if shutil.which("bwrap") is None:
        return
    with (
        contextlib.suppress(SandboxUnavailable),
        contextlib.closing(open_backend("bwrap", state=state, needs_image=False)) as backend,
        backend.open(SandboxSpec(Phase.AGENT, Limits()), None),
    ):
        pass
