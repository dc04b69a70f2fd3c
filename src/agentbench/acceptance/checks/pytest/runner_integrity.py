"""Did a build change the test runner? Compared on disk between a replica of the candidate and one of untouched R."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.checks.pytest.run import OPTIONAL_MODULES
from agentbench.acceptance.checks.pytest.runner_bundle import Kit
from agentbench.acceptance.grading_context import Finding
from agentbench.acceptance.protected import GradedTree
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Command
from agentbench.core.errors import PatchInvalid, SandboxError
from agentbench.sandbox.protocol import Sandbox
from agentbench.tree.entry import Entry
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.events import path_text


class Interpreter(BaseModel):
    """Where the environment's Python keeps things."""

    model_config = ConfigDict(frozen=True)
    behind: str
    """The interpreter that the environment is made of, outside of what a build can write."""
    programs: str
    folders: tuple[str, ...]
    runner: tuple[str, ...] = ()
    """Top-level modules that were loaded from those folders when the runner had started, before any code of R."""


def fingerprint(sandbox: Sandbox, kit: Kit, python: Interpreter, plugins: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Digests of the runner, its plugins and all start-up files, by path.

    Raises:
        SandboxError: ours; also when the answer is no answer, since no candidate code takes part in it.
    """
    modules = {target.split(":")[0].split(".")[0] for _, target in plugins}
    job = {
        "names": sorted({*OPTIONAL_MODULES, *python.runner, *modules}),
        "folders": list(python.folders),
        "programs": python.programs,
    }
    command = Command(
        argv=(python.behind, "-I", "-S", f"{kit.mount.target}/fingerprint.py"),
        cwd="/",
        timeout_sec=120,
        stdin=json.dumps(job).encode(),
        side_channel=True,
    )
    completed = sandbox.run(command)
    try:
        found = json.loads(completed.side)
    except ValueError:
        found = None
    if not completed.ok or not isinstance(found, dict):
        raise SandboxError(f"the environment could not be examined (exit {completed.exit_code})")
    return {str(path): str(value) for path, value in found.items()}


def remade(
    sandbox: Sandbox, tree: GradedTree, base: Mapping[bytes, Entry], matters: Callable[[bytes], bool]
) -> tuple[str, ...]:
    """Files that matter and are not as they were laid down before the build, with what it added of that kind.

    Raises:
        PatchInvalid: the build left more than we are willing to look at.
        SandboxError: ours.
    """
    laid: dict[bytes, str | None] = {path: entry.sha256 for path, entry in base.items()}
    for write in tree.writes:
        content = write.content if write.symlink is None else write.symlink
        laid[write.path] = None if content is None else sha256_hex(content)
    try:
        there: dict[bytes, str | None] = {entry.path: entry.sha256 for entry in sandbox.tree().entries()}
    except TreeTooLarge as error:
        raise PatchInvalid(f"what the build left cannot be read: {error.message}") from error
    paths = sorted(path for path in {*laid, *there} if laid.get(path) != there.get(path))
    return tuple(path_text(path)[0] for path in paths if matters(path))


def remade_findings(usual: Collection[str] | None, found: Collection[str]) -> tuple[Finding, ...]:
    """What a candidate's build did to the tests that R's own build does not do. None: R does not build, so nobody knows."""
    detail = "the build changed a file of the tests, or what steers them"
    severity: Literal["note", "gate"] = "note" if usual is None else "gate"
    news = [path for path in found if path not in (usual or ())]
    return tuple(Finding("build_changed_runner", severity, detail, path=path) for path in news[:20])


def build_findings(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Finding, ...]:
    """What a candidate's build did to the runner that R's own build does not do."""
    found = []
    for path in sorted({*before, *after}):
        if before.get(path) == after.get(path):
            continue
        name = posixpath.basename(path)
        # An editable install writes its own path file, and its name has the version in it.
        grave = not name.startswith("__editable__")
        detail = "the build changed what the test runner or every interpreter starts from"
        found.append(Finding("build_changed_runner", "gate" if grave else "note", detail, path=path))
    return tuple(found[:20])
