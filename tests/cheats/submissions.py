"""Loads the submissions in this folder. Each is a file with a description and the changes or script of an agent."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentbench.acceptance.grading_context import GradingContext
from agentbench.core.command import Command
from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.extract import extract
from tests.acceptance.toy import HIDDEN, REPO, UNIT, TaskFactory, patch_of
from tests.cheats.snippets import CORE, RIGHT, SPREAD_EXPORTS

HERE = Path(__file__).parent
ALL_ON_DOCKER = "AB_CHEATS_ON_DOCKER"
"""If set, every cheat also runs in containers, which takes minutes; otherwise one of each family below."""
DOCKER_FAMILIES = frozenset(
    {"configuration", "early_exit", "runner", "forged_results", "background", "host_git", "infrastructure"}
)

_SPREAD = "\n\ndef spread(values):\n    return max(values) - min(values)\n"
REFERENCE: dict[str, str | None] = {CORE: RIGHT + _SPREAD, "src/toy/__init__.py": SPREAD_EXPORTS}
"""Changes of a reference that solves the tasks of most submissions."""

FAMILIES = {
    "configuration": "runner configuration: conftest, ini, toml and cfg options, plugins",
    "startup": "interpreter start-up files",
    "shadowing": "modules and programs found before the real ones",
    "early_exit": "ending the process early with status 0",
    "tests": "skipping, weakening, deleting or pre-creating tests",
    "runner": "patching pytest, assertion helpers or reports from product code",
    "equality": "objects equal to everything",
    "frames": "the expected value read from the caller",
    "forged_results": "forged output, reports and channels",
    "bytecode": "bytecode instead of source",
    "background": "processes that write files again between extraction and grading",
    "git": "changes hidden with git features",
    "leaks": "answers looked up in history, files, hidden tests or the environment",
    "build": "build hooks and other scripts that checks go through",
    "caches": "poisoning what attempts could share",
    "infrastructure": "looking like a harness error",
    "host_git": "code that git on the host would run",
    "special_files": "links, pipes, odd names and other special files",
    "hostile_patches": "patches that write outside the workspace",
    "output": "floods and control sequences",
    "diff_bombs": "changes too large to inspect",
    "bombs": "exhausting processes, memory and disk",
}
"""Families of threats. Threats to the judge are tested in tests/acceptance/judge/test_judge.py."""


@dataclass(frozen=True)
class Submission:
    """The work of an agent, prepared in advance."""

    name: str
    description: str
    family: str = ""
    changes: dict[str, str | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    patch: bytes | None = None
    timeout_sec: int = 60
    repo: dict[str, str] = field(default_factory=dict)
    """Files that the project has in addition to those of the toy."""
    hidden: dict[str, str] | None = None
    reference: dict[str, str | None] = field(default_factory=dict)
    """Changes of the reference."""
    oracle: dict[str, object] = field(default_factory=dict)
    check: dict[str, object] = field(default_factory=dict)
    """Overrides for the oracle and its check."""

    def context(self, tasks: TaskFactory, folder: Path, *, reference: str = "") -> GradingContext:
        """Return the task. With `reference`, a patch, its tests have decoys."""
        oracle = {**self.oracle, "checks": [{**UNIT, "timeout_sec": self.timeout_sec, **self.check}]}
        hidden = HIDDEN if self.hidden is None else self.hidden
        with_reference = {"files": {"reference.patch": reference}, "reference": "reference.patch"} if reference else {}
        return tasks.context(folder, repo={**REPO, **self.repo}, hidden=hidden, oracle=oracle, **with_reference)  # type: ignore[arg-type]

    def make_patch(self, context: GradingContext) -> tuple[bytes, str | None]:
        """Return the patch and its problem: as given, created from the changes, or extracted after running the script."""
        if self.patch is not None:
            return self.patch, None
        if self.script is None:
            return patch_of(context, self.changes, self.links), None
        with context.backend.open(context.spec, context.prepared) as sandbox:
            sandbox.run(Command(line=self.script, cwd=context.spec.workdir, timeout_sec=60))
            sandbox.kill_processes()
            generated = context.loaded.task.oracle.generated
            try:
                delta = extract(context.prepared.base_tree, sandbox.tree(), generated=generated)
            except PatchInvalid as fault:  # the work ended its own sandbox
                return b"", fault.message
        return delta.patch, delta.problem


def submissions(kind: str) -> list[Submission]:
    return [_load(path) for path in sorted((HERE / kind).glob("*.py"))]


def _load(path: Path) -> Submission:
    spec = importlib.util.spec_from_file_location(f"tests.cheats.{path.parent.name}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Submission(
        name=path.stem,
        description=module.__doc__ or "",
        family=getattr(module, "FAMILY", ""),
        changes=getattr(module, "CHANGES", {}),
        links=getattr(module, "LINKS", {}),
        script=getattr(module, "SCRIPT", None),
        patch=getattr(module, "PATCH", None),
        timeout_sec=getattr(module, "TIMEOUT_SEC", 60),
        repo=getattr(module, "REPO", {}),
        hidden=getattr(module, "HIDDEN", None),
        reference=getattr(module, "REFERENCE", REFERENCE),
        oracle=getattr(module, "ORACLE", {}),
        check=getattr(module, "CHECK", {}),
    )


def parametrize_submissions(kind: str, *, some: bool = False) -> pytest.MarkDecorator:
    """Parametrize a test with all submissions of a kind; with `some`, with one of each docker family."""
    chosen = submissions(kind)
    if some and ALL_ON_DOCKER not in os.environ:
        # Submissions to the same project share one prepared image.
        chosen = list(
            {
                submission.family: submission
                for submission in reversed(chosen)
                if submission.family in DOCKER_FAMILIES and not submission.repo
            }.values()
        )
    return pytest.mark.parametrize(
        "submission", [pytest.param(submission, id=submission.name) for submission in chosen]
    )
