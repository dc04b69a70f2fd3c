"""Folders with tasks, files and runs in which every recorded command works, created once for all workers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stage import run_commands, write_stage
from tests.execution.conftest import Ab
from tests.session_state import once, session_folder, shared_state

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


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Tasks, files and recorded runs; cheap to make."""
    shared = session_folder(tmp_path_factory)
    folder = shared / "cli-stage"
    once(shared, "cli-stage", lambda: write_stage(folder))
    return Stage(folder, shared_state(tmp_path_factory, "cli-state"))


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, dict[str, list[Any]]]:
    """A stage of its own, and [exit code, stdout, stderr] of every command of `stage.EXECUTED` run in it."""
    shared = session_folder(tmp_path_factory)
    folder, state = shared / "cli-executed", shared_state(tmp_path_factory, "cli-executed-state")

    def make() -> dict[str, list[Any]]:
        write_stage(folder)
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        return run_commands(folder, Ab(folder, {**env, "HOME": str(folder), "AB_STATE": str(state), "COLUMNS": "110"}))

    return Stage(folder, state), once(shared, "cli-executed", make)
