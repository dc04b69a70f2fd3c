"""A folder with tasks, files and runs in which every recorded command works, made once for all workers."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.stage import build
from tests.run.conftest import Ab


@dataclass(frozen=True, slots=True)
class Stage:
    """Where commands run, and the output of those that had to run in order."""

    folder: Path
    state: Path
    outputs: dict[str, list[object]]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, state, done = shared / "cli-stage", shared / "cli-state", shared / "cli-stage.json"
    with (shared / "cli-stage.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            kept = (
                "PATH",
                "LANG",
                "SSL_CERT_FILE",
                "PIP_FIND_LINKS",
                "PIP_CERT",
                "REQUESTS_CA_BUNDLE",
                "PIP_INDEX_URL",
            )
            env = {name: os.environ[name] for name in kept if name in os.environ}
            folder.mkdir()
            ab = Ab(folder, {**env, "HOME": str(folder), "AB_STATE": str(state), "COLUMNS": "110"})
            done.write_text(json.dumps(build(folder, ab)), encoding="utf-8")
    return Stage(folder, state, json.loads(done.read_text(encoding="utf-8")))
