"""A pilot that was carried out completely, made once for all workers."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import Ab, ab, interrupt, make_ab, shared_state  # noqa: F401 - fixtures
from tests.pilot.studies import FIX, make_pilot
from tests.session_state import once, session_folder


@dataclass(frozen=True)
class Finished:
    """A complete pilot, and [exit code, stdout, stderr] of each command that made it."""

    folder: Path
    commands: dict[str, list[Any]]

    def copy(self, target: Path) -> Path:
        """Return a copy that a test may change."""
        shutil.copytree(self.folder, target, symlinks=True)
        return target


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Finished:  # noqa: F811
    """A pilot of two methods and two baselines on four tasks, in three stages."""
    shared = session_folder(tmp_path_factory)
    folder = shared / "finished-pilot"

    def make() -> dict[str, list[Any]]:
        make_pilot(folder, steps={"one": [FIX]})
        command = make_ab(shared, shared_state)
        steps = {
            "plan": ("pilot", "plan", folder),
            "freeze": ("pilot", "freeze", folder),
            "feasibility": ("pilot", "run", folder, "--workers", "2"),
            "limited": ("pilot", "run", folder, "--stage", "limited", "--workers", "2"),
            "full": ("pilot", "run", folder, "--workers", "2"),
            "status": ("pilot", "status", folder, "--json"),
            "report": ("pilot", "report", folder, "--json"),
            "verify": ("verify", folder, "--json"),
        }
        ran = {name: command(*arguments) for name, arguments in steps.items()}
        return {name: [done.code, done.stdout, done.stderr] for name, done in ran.items()}

    return Finished(folder, once(shared, "finished-pilot", make))


@pytest.fixture
def study(finished: Finished, tmp_path: Path) -> Path:
    """A copy of the finished pilot."""
    return finished.copy(tmp_path / "study")


def output(finished: Finished, name: str) -> Any:
    """Return the JSON document that a command of the finished pilot printed."""
    code, stdout, stderr = finished.commands[name]
    assert code == 0, (stdout, stderr)
    return json.loads(stdout)
