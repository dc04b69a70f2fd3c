"""Continuous resource samples: bounded, never of an idle sandbox, never the end of anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Backend, Phase, Prepared, Sandbox, SandboxSpec, Usage
from agentbench.sandbox.usage_sampler import SampledBackend, UsageSampler
from tests.sandbox.conftest import SMALL, SPEC

BACKENDS = ["bwrap", "docker"]

pytestmark = pytest.mark.req("M-01")


class Scripted:
    """A sandbox whose usage is told in advance."""

    id = "scripted"

    def __init__(self, usages: list[Usage | Exception]) -> None:
        self._usages = usages
        self.asked = threading.Event()

    def usage(self) -> Usage:
        found = self._usages.pop(0) if len(self._usages) > 1 else self._usages[0]
        if len(self._usages) == 1:
            self.asked.set()
        if isinstance(found, Exception):
            raise found
        return found


def used(cpu_sec: float | None) -> Usage:
    return Usage(cpu_sec, None, None, None, None, None)


def sampled(usages: list[Usage | Exception]) -> list[Usage]:
    sandbox = Scripted(usages)
    seen: list[Usage] = []
    with UsageSampler(cast("Sandbox", sandbox), seen.append, first_sec=0.001):
        assert sandbox.asked.wait(20)
    return seen


def test_nothing_is_told_of_a_sandbox_where_nothing_happened() -> None:
    assert sampled([used(1.0), used(1.0), used(1.0), used(2.0), used(2.0)]) == [used(1.0), used(2.0)]


def test_trouble_with_a_sample_ends_nothing() -> None:
    assert sampled([SandboxError("gone"), OSError("gone"), used(1.0), used(1.0)]) == [used(1.0)]


@pytest.mark.parametrize("phase,least", [(Phase.AGENT, 1), (Phase.ORACLE, 2)])
def test_agents_and_oracles_are_sampled_while_they_run(
    backend: Backend, prepared: Prepared, phase: Phase, least: int
) -> None:
    seen: list[tuple[Phase, Usage]] = []
    enough = threading.Event()

    def emit(phase: Phase, usage: Usage) -> None:
        seen.append((phase, usage))
        enough.set()

    monitored = SampledBackend(backend, emit, first_sec=0.05)
    with monitored.open(SandboxSpec(phase, SMALL), prepared) as sandbox:
        running = sandbox.start(Command(line="while :; do :; done", timeout_sec=60))
        assert enough.wait(30)
        running.kill()
        running.wait()
    assert {one for one, _ in seen} == {phase}
    assert seen[0][1].cpu_sec is not None
    assert len(seen) >= least


def test_a_short_life_without_work_leaves_no_sample() -> None:
    seen: list[Usage] = []

    class Nothing:
        @contextmanager
        def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
            yield cast("Sandbox", Scripted([used(0.0)]))

    monitored = SampledBackend(cast("Backend", Nothing()), lambda _, usage: seen.append(usage))
    with monitored.open(SPEC, None):
        pass
    assert seen == []
