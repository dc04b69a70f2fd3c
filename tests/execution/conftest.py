"""Run `ab` as a user does, with a state folder that all tests of the session share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import session_state
from tests.execution.preloaded import run_preloaded
from tests.models.conftest import serve  # noqa: F401 - a fixture

AB = (sys.executable, "-m", "agentbench.cli")


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def record(self) -> dict[str, Any]:
        """The record of a run with one attempt."""
        (record,) = self.json["attempts"]
        assert isinstance(record, dict)
        return record


@dataclass(frozen=True)
class Ab:
    """Runs `ab` in the test's folder."""

    cwd: Path
    env: Mapping[str, str]

    def __call__(self, *arguments: str | Path, timeout: float = 900, env: Mapping[str, str] | None = None) -> Ran:
        done = run_preloaded([*map(str, arguments)], cwd=self.cwd, env={**self.env, **(env or {})}, timeout=timeout)
        assert "Traceback" not in done.stderr, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str | Path, program: Sequence[str] = AB) -> subprocess.Popen[str]:
        return subprocess.Popen(
            # Tests started in the background ignore SIGINT; `ab` must not.
            ["env", "--default-signal=INT", *program, *map(str, arguments)],
            cwd=self.cwd,
            env=dict(self.env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Signals of a test go to this process only.
            process_group=0,
        )

    def run_task(self, task: Path, *arguments: str | Path) -> Ran:
        return self("run-task", "--task", task, "--json", *arguments)

    def by_command(self, task: Path, line: str, *arguments: str | Path) -> Ran:
        return self.run_task(task, "--agent", "command", "--agent-command", line, *arguments)


@pytest.fixture(scope="session")
def shared_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State folder of all xdist workers."""
    return session_state.shared_state(tmp_path_factory, "ab-state")


@pytest.fixture
def ab(tmp_path: Path, shared_state: Path) -> Ab:
    return make_ab(tmp_path, shared_state)


def make_ab(folder: Path, state: Path) -> Ab:
    """Return the command with a working folder and a state folder."""
    kept = ("PATH", "HOME", "LANG", "DOCKER_HOST", "SSL_CERT_FILE", "PIP_FIND_LINKS", "PIP_CERT", "REQUESTS_CA_BUNDLE")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    return Ab(folder, {**env, "AB_STATE": str(state)})


Interrupt = Callable[["subprocess.Popen[str]", int], tuple[int, str, str]]


@pytest.fixture
def interrupt() -> Interrupt:
    def send(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str, str]:
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    return send
