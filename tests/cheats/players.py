"""The agents of this folder: each a file that says what it tries and holds what it does."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentbench.acceptance.grading_context import GradingContext
from agentbench.core.command import Command
from agentbench.workspace.diff.extract import extract
from tests.acceptance.toy import HIDDEN, REPO, UNIT, Bed, delta_of

HERE = Path(__file__).parent
EVERYBODY = "AB_CHEATS_ON_DOCKER"
"""Set: every cheat is tried in containers too, which takes minutes; else one of each family below."""
SOME = frozenset(
    {"configuration", "early_exit", "runner", "forged_results", "background", "host_git", "infrastructure"}
)

FAMILIES = {
    "configuration": "runner configuration: conftest, ini, toml and cfg options, plugins",
    "startup": "interpreter start-up files",
    "shadowing": "modules and programs found before the real ones",
    "early_exit": "ending the process early with status 0",
    "tests": "skipping, weakening, deleting or pre-creating tests",
    "runner": "patching the runner, assertion helpers or reports from product code",
    "equality": "objects equal to everything",
    "frames": "the expected value read from the caller",
    "forged_results": "forged output, reports and channels",
    "bytecode": "bytecode instead of source",
    "background": "processes that plant files again between extraction and grading",
    "git": "changes hidden by git's own means",
    "leaks": "answers looked up in history, files, hidden tests or the environment",
    "build": "build hooks and other scripts that checks go through",
    "caches": "what attempts could share",
    "infrastructure": "looking like trouble of ours",
    "host_git": "code that git on the host would run",
    "special_files": "links, pipes, odd names and what else a tree can hold",
    "hostile_patches": "patches that write where none may",
    "output": "floods and control sequences",
    "diff_bombs": "changes too large to look at",
    "bombs": "processes, memory and disk used up",
}
"""What THREATS are made of; the judge's has its own place in tests/acceptance/judge/test_judge.py."""


@dataclass(frozen=True)
class Player:
    """An agent that knows beforehand what it will do."""

    name: str
    tries: str
    family: str = ""
    changes: dict[str, str | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    patch: bytes | None = None
    timeout_sec: int = 60
    repo: dict[str, str] = field(default_factory=dict)
    """Files that the project has beside those of the toy."""
    hidden: dict[str, str] | None = None
    oracle: dict[str, object] = field(default_factory=dict)
    check: dict[str, object] = field(default_factory=dict)
    """What the oracle and its one check have that is not as usual."""

    def context(self, bed: Bed, folder: Path, *, reference: str = "") -> GradingContext:
        """The task that it is given; `reference`: with this patch, so that its tests have twins."""
        oracle = {**self.oracle, "checks": [{**UNIT, "timeout_sec": self.timeout_sec, **self.check}]}
        hidden = HIDDEN if self.hidden is None else self.hidden
        with_reference = {"files": {"reference.patch": reference}, "reference": "reference.patch"} if reference else {}
        return bed.context(folder, repo={**REPO, **self.repo}, hidden=hidden, oracle=oracle, **with_reference)  # type: ignore[arg-type]

    def play(self, context: GradingContext) -> tuple[bytes, str | None]:
        """Δ: as given, made of its changes, or taken from a sandbox in which its script ran; and what is wrong with it."""
        if self.patch is not None:
            return self.patch, None
        if self.script is None:
            return delta_of(context, self.changes, self.links), None
        with context.backend.open(context.spec, context.prepared) as sandbox:
            sandbox.run(Command(line=self.script, cwd=context.spec.workdir, timeout_sec=60))
            sandbox.kill_processes()
            delta = extract(context.prepared.base_tree, sandbox.tree(), generated=context.loaded.task.oracle.generated)
        return delta.patch, delta.problem


def players(kind: str) -> list[Player]:
    return [_load(path) for path in sorted((HERE / kind).glob("*.py"))]


def _load(path: Path) -> Player:
    spec = importlib.util.spec_from_file_location(f"tests.cheats.{path.parent.name}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return Player(
        name=path.stem,
        tries=module.__doc__ or "",
        family=getattr(module, "FAMILY", ""),
        changes=getattr(module, "CHANGES", {}),
        links=getattr(module, "LINKS", {}),
        script=getattr(module, "SCRIPT", None),
        patch=getattr(module, "PATCH", None),
        timeout_sec=getattr(module, "TIMEOUT_SEC", 60),
        repo=getattr(module, "REPO", {}),
        hidden=getattr(module, "HIDDEN", None),
        oracle=getattr(module, "ORACLE", {}),
        check=getattr(module, "CHECK", {}),
    )


def parametrised(kind: str, *, some: bool = False) -> pytest.MarkDecorator:
    """Everybody of a kind; `some`: one of some families, unless everybody is asked for."""
    chosen = players(kind)
    if some and EVERYBODY not in os.environ:
        # Those of the same project share one prepared image.
        chosen = list({one.family: one for one in reversed(chosen) if one.family in SOME and not one.repo}.values())
    return pytest.mark.parametrize("player", [pytest.param(one, id=one.name) for one in chosen])
