"""Find out whether a declared build changed the environment: the test runner, dependencies or start-up files.

A build runs code of the patch, so it can change what the patch itself may not. Its effects on disk are compared with
those of the same build on the base repository.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentbench.acceptance.checks.pytest.runner_bundle import RunnerBundle
from agentbench.acceptance.grading_context import Finding
from agentbench.acceptance.runner.fingerprint import UNTOUCHED
from agentbench.core.command import Command
from agentbench.sandbox.protocol import Sandbox

MAX_FINDINGS = 20
OPTIONAL_MODULES = (
    "_pytest", "pytest", "pluggy", "iniconfig", "packaging", "exceptiongroup", "tomli", "colorama", "pygments", "attr",
    "attrs", "argcomplete", "py", "pexpect", "sitecustomize", "usercustomize", "xdist", "execnet", "setuptools",
    "pkg_resources", "numpy", "faulthandler", "readline",
)  # fmt: skip
"""Modules that the runner imports if they exist. If setup did not install one, a patch cannot add it."""


class Interpreter(BaseModel):
    """Paths of the environment's Python."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    behind: str
    """The base interpreter of the environment, where a build cannot write."""
    programs: str
    folders: tuple[str, ...]
    runner: tuple[str, ...] = ()
    """Top-level modules that the runner had loaded from those folders before any code of the repository ran."""


class Fingerprint(BaseModel):
    """Digests by path of what a build must leave alone. `UNTOUCHED` stands for a digest that cannot have changed."""

    model_config = ConfigDict(frozen=True, defer_build=True)
    runner: dict[str, str] = Field(default_factory=dict)
    """The test runner, its plugins and all start-up files."""
    dependencies: dict[str, str] = Field(default_factory=dict)
    """Packages that setup installed, without the project and without those that the base repository's build writes."""
    bytecode: dict[str, str] = Field(default_factory=dict)
    """Bytecode of all of these; not filled for candidates."""
    whole: bool = True
    """Whether the build passed. If not, it may have missed what a candidate's build is allowed to write."""


def fingerprint(
    sandbox: Sandbox,
    bundle: RunnerBundle,
    python: Interpreter,
    plugins: Sequence[tuple[str, str]],
    known: Fingerprint | None = None,
) -> Fingerprint:
    """Describe the environment after a build. With `known`, that of the base repository, describe a candidate's.

    In a candidate's, bytecode that the base repository's build does not leave is removed. The result is empty if the
    files cannot be read: a build can leave too many to list. Compared with any other result, all of them changed.

    Raises:
        SandboxError: the sandbox failed.
    """
    modules = {target.split(":")[0].split(".")[0] for _, target in plugins}
    job = {
        "runner": sorted({*OPTIONAL_MODULES, *python.runner, *modules}),
        "dependencies": [] if known is None else sorted({_module(path) for path in known.dependencies}),
        "bytecode": None if known is None else known.bytecode,
        "folders": list(python.folders),
        "programs": python.programs,
    }
    command = Command(
        argv=(python.behind, "-I", "-S", f"{bundle.mount.target}/fingerprint.py"),
        cwd="/",
        timeout_sec=120,
        stdin=json.dumps(job).encode(),
        side_channel=True,
    )
    completed = sandbox.run(command)
    try:
        return Fingerprint.model_validate_json(completed.side) if completed.ok else Fingerprint()
    except ValidationError:
        return Fingerprint()


def changed_environment_findings(
    before: Fingerprint, after: Fingerprint, project_modules: Collection[str]
) -> tuple[Finding, ...]:
    """Report what a candidate's build changed of the environment that the base repository's build does not.

    `own`: modules that the project provides itself.
    """
    findings = []
    severity: Literal["note", "gate"]
    for path in _changed(before.runner, after.runner):
        # An editable install writes a path file of its own, whose name contains the version.
        severity = "note" if posixpath.basename(path).startswith("__editable__") else "gate"
        detail = "the build changed a file of the test runner or of the interpreter's start-up"
        findings.append(Finding("build_changed_runner", severity, detail, path=path))
    for path in _changed(before.dependencies, after.dependencies):
        if _module(path) not in project_modules:
            severity = "gate" if before.whole else "note"
            detail = "the build changed an installed dependency, which the base repository's build does not"
            findings.append(Finding("build_changed_dependency", severity, detail, path=path))
    return tuple(findings[:MAX_FINDINGS])


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(path for path in {*before, *after} if after.get(path) not in {before.get(path), UNTOUCHED})


def _module(path: str) -> str:
    return posixpath.basename(path).split(".")[0]
