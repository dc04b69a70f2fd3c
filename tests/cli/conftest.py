"""Folders with tasks, files and runs in which every recorded command works, created once for all workers."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stage import run_commands, write_stage
from tests.run.conftest import Ab

INHERITED = (
    "PATH",
    "LANG",
    "SSL_CERT_FILE",
    "PIP_FIND_LINKS",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "REQUESTS_CA_BUNDLE",
)


@dataclass(frozen=True, slots=True)
class Stage:
    """The folder in which commands run, and the harness state they use."""

    folder: Path
    state: Path


def once(base: Path, name: str, make: Callable[[], Any]) -> Any:
    """Return the result of `make`, computed by whichever worker comes first."""
    result = base / f"{name}.json"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(result.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def stage(shared: Path) -> Stage:
    """Tasks, files and recorded runs; cheap to make."""
    folder = shared / "cli-stage"
    once(shared, "cli-stage", lambda: write_stage(folder))
    return Stage(folder, shared / "cli-state")


@pytest.fixture(scope="session")
def executed(shared: Path) -> tuple[Stage, dict[str, list[Any]]]:
    """A stage of its own, and [exit code, stdout, stderr] of every command of `stage.EXECUTED` run in it."""
    folder, state = shared / "cli-executed", shared / "cli-executed-state"

    def make() -> dict[str, list[Any]]:
        write_stage(folder)
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return run_commands(folder, Ab(folder, {**env, "HOME": str(folder), "AB_STATE": str(state), "COLUMNS": "110"}))

    return Stage(folder, state), once(shared, "cli-executed", make)
