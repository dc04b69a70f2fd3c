"""Resource samples of sandboxes: bounded, none for an idle sandbox, and failures are ignored."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.protocol import Backend, Phase, Prepared, Sandbox, SandboxSpec, Usage
from agentbench.sandbox.usage_sampler import SampledBackend, sample_usage
from tests.sandbox.conftest import SMALL, SPEC

BACKENDS = ["bwrap", "docker"]

pytestmark = [pytest.mark.req("M-01a"), pytest.mark.component]


class Scripted:
    """A sandbox that reports the given usages."""

    id = "scripted"

    def __init__(self, usages: list[Usage | Exception]) -> None:
        self._usages = usages
        self.asked = threading.Event()

    def usage(self) -> Usage:
        usage = self._usages.pop(0) if len(self._usages) > 1 else self._usages[0]
        if len(self._usages) == 1:
            self.asked.set()
        if isinstance(usage, Exception):
            raise usage
        return usage


def used(cpu_sec: float | None) -> Usage:
    return Usage(cpu_sec, None, None, None, None, None)


def sampled(usages: list[Usage | Exception]) -> list[Usage]:
    sandbox = Scripted(usages)
    samples: list[Usage] = []
    with sample_usage(cast("Sandbox", sandbox), samples.append, first_sec=0.001):
        assert sandbox.asked.wait(60)
    return samples


def test_idle_sandbox_is_not_reported() -> None:
    assert sampled([used(1.0), used(1.0), used(1.0), used(2.0), used(2.0)]) == [used(1.0), used(2.0)]


def test_failed_sample_does_not_stop_the_sampler() -> None:
    assert sampled([SandboxError("gone"), OSError("gone"), used(1.0), used(1.0)]) == [used(1.0)]


@pytest.mark.parametrize("phase,least", [(Phase.AGENT, 1), (Phase.GRADING, 2)])
def test_agent_and_grading_sandboxes_are_sampled_while_they_run(
    backend: Backend, prepared: Prepared, phase: Phase, least: int
) -> None:
    samples: list[tuple[Phase, Usage]] = []
    enough = threading.Event()

    def emit(phase: Phase, usage: Usage, _denied: Mapping[str, int]) -> None:
        samples.append((phase, usage))
        enough.set()

    sampled_backend = SampledBackend(backend, emit, first_sec=0.05)
    with sampled_backend.open(SandboxSpec(phase, SMALL), prepared) as sandbox:
        running = sandbox.start(Command(line="while :; do :; done", timeout_sec=60))
        assert enough.wait(60)
        running.kill()
        running.wait()
    assert {sampled_phase for sampled_phase, _ in samples} == {phase}
    assert samples[0][1].cpu_sec is not None
    assert len(samples) >= least


def test_short_lived_idle_sandbox_has_no_sample() -> None:
    samples: list[Usage] = []

    class IdleBackend:
        @contextmanager
        def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
            yield cast("Sandbox", Scripted([used(0.0)]))

    sampled_backend = SampledBackend(cast("Backend", IdleBackend()), lambda _, usage, __: samples.append(usage))
    with sampled_backend.open(SPEC, None):
        pass
    assert samples == []
