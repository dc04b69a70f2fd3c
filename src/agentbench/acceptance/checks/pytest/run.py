"""Running pytest through the pinned runner, and the pins themselves.

The pins come from a survey on untouched R (`pristine.py`): which plugins setup installed, which file configures pytest,
which names can be imported. A run of a patch uses those and nothing that the patch could have put in their place.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentbench.acceptance.checks.pytest.records import Transcript, read_transcript
from agentbench.acceptance.checks.pytest.runner_bundle import Canaries, Kit
from agentbench.acceptance.replica import ENV
from agentbench.contract.pytest_command import PytestCommand
from agentbench.core.command import MIB, Command, Completed
from agentbench.sandbox.protocol import Sandbox, SandboxSpec

SIDE_BYTES = 64 * MIB
OPTIONAL_MODULES = (
    "_pytest", "pytest", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "colorama", "pygments", "attr",
    "attrs", "argcomplete", "py", "pexpect", "sitecustomize", "usercustomize", "xdist", "execnet", "setuptools",
    "pkg_resources", "numpy", "faulthandler", "readline",
)  # fmt: skip
"""What the runner would import if it were there. Where setup did not install it, a patch cannot bring it along."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """R's own pytest configuration. `inifile` is None when R has none: then an empty one keeps others out."""

    rootdir: str
    confcutdir: str
    inifile: str | None = None


@dataclass(frozen=True, slots=True)
class Pins:
    """What a run of a patch is held to."""

    plugins: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    absent: tuple[str, ...]
    configuration: Configuration
    guarded: tuple[str, ...] = ()
    """Files of the tests that count, as seen inside: code under test has no business in them."""
    tests: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    """Modules of the tests as they are when nothing but R is there."""
    support: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of what lies with the tests, and the files of R that may have them."""
    replaced: tuple[str, ...] = ()
    """Names that the tests themselves replace while they run."""
    conftests: tuple[str, ...] = ()
    """R's own, as seen inside."""
    closely: tuple[str, ...] = ()
    """Tests that have to come to pass: the watch never leaves them out."""
    written: tuple[str, ...] = ()
    """Python files of the patch, relative to the workspace: code under test whatever they are called."""
    only: tuple[str, ...] = ()
    """Tests to run; empty for all that the command collects."""


@dataclass(frozen=True, slots=True)
class PytestRun:
    """One run of the pinned runner."""

    completed: Completed
    transcript: Transcript
    canaries: Canaries
    exit_expected: int
    built: Mapping[str, str] = field(default_factory=dict)
    """Digests of the runner's files after a declared build."""
    remade: tuple[str, ...] = ()
    """Files of the tests that the build changed."""

    @property
    def whole(self) -> bool:
        """The runner came to its end and left by its own door."""
        return self.transcript.ended and self.completed.exit_code == self.exit_expected


def run_pytest(
    sandbox: Sandbox, spec: SandboxSpec, command: PytestCommand, kit: Kit, *, pins: Pins | None, timeout_sec: float
) -> PytestRun:
    """Run the tests, or without pins survey them: natural configuration, nothing but canaries is run.

    Raises:
        SandboxError: ours.
    """
    nonce = secrets.token_hex(16)
    exit_expected = 64 + secrets.randbelow(50)
    python_path = command.env.get("PYTHONPATH", spec.env.get("PYTHONPATH", ""))
    job = {
        "mode": "survey" if pins is None else "run",
        "nonce": nonce,
        "exit": exit_expected,
        "workspace": spec.workdir,
        "cwd": posixpath.join(spec.workdir, command.folder),
        "module": command.imports_cwd,
        "pythonpath": [] if command.ignores_python_variables else [part for part in python_path.split(":") if part],
        "env": {"PYTHONPATH": python_path} if python_path else {},
        "arguments": list(command.arguments),
        "plugins": [] if pins is None else [list(pair) for pair in pins.plugins],
        "pinned": [] if pins is None else list(pins.names),
        "absent": [] if pins is None else list(pins.absent),
        "configuration": None if pins is None else _configuration(pins.configuration, kit),
        "tests": {} if pins is None else {name: [file, dict(code)] for name, (file, code) in pins.tests.items()},
        "support": {} if pins is None else {name: list(files) for name, files in pins.support.items()},
        "replaced": [] if pins is None else list(pins.replaced),
        "conftests": [] if pins is None else list(pins.conftests),
        "guarded": [] if pins is None else list(pins.guarded),
        "closely": [] if pins is None else list(pins.closely),
        "written": [] if pins is None else list(pins.written),
        "only": [] if pins is None else list(pins.only),
        "cache": f"/tmp/{secrets.token_hex(6)}",
        "canary": kit.canary_file,
    }
    runner = Command(
        # -s, -S and no PYTHONPATH: nothing of the workspace is importable until the runner says so. Not -I, which would
        # also ignore variables that the contract declares, such as PYTHONHASHSEED.
        argv=(interpreter(spec, command), "-s", "-S", *command.options, kit.runner),
        cwd=spec.workdir,
        env={**ENV, **command.env, "PYTHONPATH": ""},
        timeout_sec=timeout_sec,
        stdin=json.dumps(job).encode(),
        side_channel=True,
        side_bytes=SIDE_BYTES,
    )
    completed = sandbox.run(runner)
    return PytestRun(completed, read_transcript(completed.side, nonce), kit.canaries, exit_expected)


def interpreter(spec: SandboxSpec, command: PytestCommand) -> str:
    """The interpreter of a pytest command: a name to look up in PATH, or an absolute path."""
    if "/" not in command.python:
        return command.python
    return posixpath.normpath(posixpath.join(spec.workdir, command.folder, command.python))


def _configuration(found: Configuration, kit: Kit) -> dict[str, str | None]:
    return {
        "copy": kit.configuration,
        "original": found.inifile,
        "rootdir": found.rootdir,
        "confcutdir": found.confcutdir,
    }
