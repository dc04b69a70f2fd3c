"""The agents of this folder: each a file that says what it tries and holds what it does."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.oracle.bench import GradingBench
from agentbench.workspace.delta import extract
from tests.oracle.toy import delta_of

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Player:
    """An agent that knows beforehand what it will do."""

    name: str
    tries: str
    changes: dict[str, str | None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    patch: bytes | None = None
    timeout_sec: int = 60

    def play(self, bench: GradingBench) -> bytes:
        """Δ: as given, made of its changes, or taken from a sandbox in which its script ran."""
        if self.patch is not None:
            return self.patch
        if self.script is None:
            return delta_of(bench, self.changes, self.links)
        with bench.backend.open(bench.spec, bench.prepared) as sandbox:
            sandbox.run(Command(line=self.script, cwd=bench.spec.workdir, timeout_sec=60))
            sandbox.kill_processes()
            delta = extract(bench.prepared.base_tree, sandbox.tree(), generated=bench.loaded.task.oracle.generated)
        assert delta.problem is None
        return delta.patch


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
        changes=getattr(module, "CHANGES", {}),
        links=getattr(module, "LINKS", {}),
        script=getattr(module, "SCRIPT", None),
        patch=getattr(module, "PATCH", None),
        timeout_sec=getattr(module, "TIMEOUT_SEC", 60),
    )


def parametrised(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("player", [pytest.param(one, id=one.name) for one in players(kind)])
