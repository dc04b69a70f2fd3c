"""Run pytest through the pinned runner.

The pins come from a survey of the base repository (`base_survey.py`): the plugins that setup installed, the file that
configures pytest, the names that can be imported. A run of a patch uses those and nothing that the patch put in their
place.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import field

from agentbench.acceptance.checks.environment_integrity import Fingerprint
from agentbench.acceptance.checks.pytest.item_ids import IdMap
from agentbench.acceptance.checks.pytest.records import Transcript, read_transcript
from agentbench.acceptance.checks.pytest.runner_bundle import Canaries, RunnerBundle
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit
from agentbench.acceptance.replica import ENV
from agentbench.contract.pytest_command import PytestCommand
from agentbench.core.command import MIB, Command, Completed
from agentbench.core.dataclass import dataclass
from agentbench.sandbox.protocol import Sandbox, SandboxSpec

SIDE_BYTES = 64 * MIB


@dataclass(frozen=True, slots=True)
class Pins:
    """Limits for a run of a patch: what it may load, and which files and tests are watched."""

    plugins: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    rootdir: str = ""
    confcutdir: str = ""
    inifile: str | None = None
    """The base repository's pytest configuration. If there is none, an empty one keeps others out."""
    guarded: tuple[str, ...] = ()
    """Files of the tests, as paths in the sandbox: code under test must not read or change them."""
    support: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names under which tests may import files beside them, and the base repository's files of that name."""
    replaced: tuple[str, ...] = ()
    """Names that the tests themselves replace while they run."""
    closely: tuple[str, ...] = ()
    """Functions with fail-to-pass tests: the runner is inspected around every one of these tests."""
    written: tuple[str, ...] = ()
    """Python files of the patch, relative to the workspace: code under test whatever their names."""
    only: tuple[str, ...] = ()
    """Tests to run; empty for all that the command collects."""
    id_map: IdMap = field(default_factory=IdMap)
    named: frozenset[str] = frozenset()
    """Functions, or whole files, whose tests keep their ids in the sandbox, because they use them."""


@dataclass(frozen=True, slots=True)
class PytestRun:
    """One run of the pinned runner."""

    completed: Completed
    transcript: Transcript
    canaries: Canaries
    exit_expected: int
    limit: TimeLimit
    built: Fingerprint = field(default_factory=Fingerprint)
    """The environment after a declared build."""
    changed_files: tuple[str, ...] = ()
    """Protected files that the build changed."""
    decoys: bool = False
    """Whether some of the tests may be decoys."""
    cpu_sec: float | None = None
    """CPU time of the run; None if it was not measured. Of candidates, only runs that reached their limit are measured."""

    @property
    def whole(self) -> bool:
        """True if the runner finished and exited with the status it was given."""
        return self.transcript.ended and self.completed.exit_code == self.exit_expected


def run_pytest(
    sandbox: Sandbox,
    spec: SandboxSpec,
    command: PytestCommand,
    bundle: RunnerBundle,
    *,
    pins: Pins | None,
    limit: TimeLimit,
) -> PytestRun:
    """Run the tests. Without pins, survey them: pytest finds its configuration itself and runs only canary tests.

    Raises:
        SandboxError: the sandbox failed.
    """
    nonce = secrets.token_hex(16)
    exit_expected = 64 + secrets.randbelow(50)
    job = {"nonce": nonce, "exit": exit_expected, **_job(spec, command, bundle, pins)}
    runner = Command(
        # -s, -S and no PYTHONPATH: nothing in the workspace is importable until the runner allows it. Not -I, which
        # would also ignore variables that the contract declares, such as PYTHONHASHSEED.
        argv=(interpreter_path(spec, command), "-s", "-S", *command.options, bundle.runner),
        cwd=spec.workdir,
        env={**ENV, **command.env, "PYTHONPATH": ""},
        timeout_sec=limit.sec,
        stdin=json.dumps(job).encode(),
        side_channel=True,
        side_bytes=SIDE_BYTES,
    )
    completed = sandbox.run(runner)
    transcript = read_transcript(completed.side, nonce, pins.id_map if pins else None)
    return PytestRun(completed, transcript, bundle.canaries, exit_expected, limit)


def _job(spec: SandboxSpec, command: PytestCommand, bundle: RunnerBundle, pins: Pins | None) -> dict[str, object]:
    """Return the job of the runner. Code under test may find it, so no test id in it contains a parameter."""
    python_path = command.env.get("PYTHONPATH", spec.env.get("PYTHONPATH", ""))
    pinned = pins or Pins()
    configuration = {
        "copy": bundle.configuration,
        "original": pinned.inifile,
        "rootdir": pinned.rootdir,
        "confcutdir": pinned.confcutdir,
    }
    return {
        "mode": "survey" if pins is None else "run",
        "workspace": spec.workdir,
        "cwd": posixpath.join(spec.workdir, command.folder),
        "module": command.imports_cwd,
        "pythonpath": [] if command.ignores_python_variables else [part for part in python_path.split(":") if part],
        "env": {"PYTHONPATH": python_path} if python_path else {},
        "arguments": list(command.arguments),
        "plugins": pinned.plugins,
        "pinned": pinned.names,
        "absent": pinned.absent,
        "configuration": configuration if pins else None,
        "support": pinned.support,
        "replaced": pinned.replaced,
        "guarded": pinned.guarded,
        "closely": pinned.closely,
        "written": pinned.written,
        "only": pinned.id_map.selection(pinned.only),
        "named": sorted(pinned.named),
        "cache": f"/tmp/{secrets.token_hex(6)}",
        "canary": bundle.canary_file,
    }


def workspace_interpreter(spec: SandboxSpec, command: PytestCommand) -> str | None:
    """Return the path of the command's interpreter in the workspace, or None if it is outside.

    The interpreter gets the secrets of a run, so neither a patch nor its build may replace it.
    """
    path = posixpath.relpath(interpreter_path(spec, command), spec.workdir)
    return None if "/" not in command.python or path.startswith("../") else path


def interpreter_path(spec: SandboxSpec, command: PytestCommand) -> str:
    """Return a name to look up in PATH, or an absolute path."""
    if "/" not in command.python:
        return command.python
    return posixpath.normpath(posixpath.join(spec.workdir, command.folder, command.python))
