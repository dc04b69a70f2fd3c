"""Real sandboxes for tests of tools and agents: one prepared workspace, a fresh copy-on-write sandbox for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import digest
from agentbench.sandbox.protocol import Backend, Limits, Mount, Phase, Prepared, SandboxSpec, SetupPlan
from agentbench.sandbox.registry import open_backend
from agentbench.tools.rules import Rules
from tests.tools.recorded_session import RecordedSession, fill, record_session

FILES = {
    "src/calc.py": "def mean(values):\n    return sum(values) / len(values)\n\n\ndef median(values):\n    return 0\n",
    "src/util.py": "# nothing to see\n",
    "docs/readme.md": "mean and median\n",
    "tests/test_calc.py": "def test_nothing():\n    assert True\n",
}
LIMITS = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=64, inodes=120_000)


@dataclass(frozen=True)
class ProjectSandboxes:
    """Opens sandboxes with a small project."""

    backend: Backend
    prepared: Prepared

    @contextmanager
    def open(
        self, record: Path, rules: Rules | None = None, *, mounts: tuple[Mount, ...] = (), limits: Limits = LIMITS
    ) -> Iterator[RecordedSession]:
        spec = SandboxSpec(phase=Phase.AGENT, limits=limits, mounts=mounts)
        with self.backend.open(spec, self.prepared) as sandbox:
            yield from record_session(sandbox, record, rules or Rules(), base=self.prepared.base_tree)


@contextmanager
def open_project_sandboxes(
    state: Path, source: Path, name: Literal["bwrap", "docker"] = "bwrap"
) -> Iterator[ProjectSandboxes]:
    fill(source, FILES)
    backend = open_backend(name, state=state, needs_image=False)
    try:
        plan = SetupPlan(key=digest({"tests": FILES}), source=source, commands=(), capture=(), timeout_sec=300)
        spec = SandboxSpec(phase=Phase.SETUP, limits=Limits())
        yield ProjectSandboxes(backend, backend.prepare(plan, spec, on_step=lambda _step: None))
    finally:
        backend.close()
