"""Samples the resource usage of live sandboxes, less often the longer they live."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from agentbench.core.errors import AgentBenchError
from agentbench.sandbox.protocol import (
    Backend,
    LimitReport,
    Phase,
    Prepared,
    Sandbox,
    SandboxSpec,
    SetupPlan,
    SetupStep,
    Usage,
)

FIRST_INTERVAL_SEC = 1.0
MAX_INTERVAL_SEC = 15.0
GROWTH = 1.5

Emit = Callable[[Phase, Usage, Mapping[str, int]], None]
"""Called with the phase, the usage so far, and the denied system calls so far by class."""


@contextlib.contextmanager
def sample_usage(
    sandbox: Sandbox, emit: Callable[[Usage], None], *, first_sec: float = FIRST_INTERVAL_SEC
) -> Iterator[None]:
    """Sample one sandbox from a thread during the `with` block: first after a second, then less and less often.

    Emits nothing if the sandbox used no CPU since the last sample.
    """
    stop = threading.Event()

    def sample() -> None:
        interval = first_sec
        last: float | None = None
        while not stop.wait(interval):
            interval = min(interval * GROWTH, MAX_INTERVAL_SEC)
            # If the sandbox died, its next user gets the error with the reason.
            with contextlib.suppress(AgentBenchError, OSError):
                usage = sandbox.usage()
                if stop.is_set():
                    return
                if usage.cpu_sec is None or usage.cpu_sec != last:
                    emit(usage)
                last = usage.cpu_sec

    thread = threading.Thread(target=sample, name=f"sampler-{sandbox.id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class SampledBackend:
    """Wraps a backend and samples its sandboxes. Implements `protocol.Backend`."""

    def __init__(
        self,
        backend: Backend,
        emit: Emit,
        *,
        first_sec: float = FIRST_INTERVAL_SEC,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """`labels`: added to each sandbox, on backends that support labels."""
        self._backend = backend
        self._emit = emit
        self._labels = dict(labels or {})
        self._first_sec = first_sec

    @property
    def name(self) -> str:
        return self._backend.name

    def limits(self) -> LimitReport:
        return self._backend.limits()

    def check(self, spec: SandboxSpec) -> None:
        self._backend.check(spec)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        return self._backend.prepare(plan, spec, on_step=on_step)

    def close(self) -> None:
        self._backend.close()

    @contextlib.contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        def emit(usage: Usage) -> None:
            self._emit(spec.phase, usage, sandbox.denied_calls())

        labelled = replace(spec, labels={**spec.labels, **self._labels})
        with self._backend.open(labelled, prepared) as sandbox:
            with sample_usage(sandbox, emit, first_sec=self._first_sec):
                yield sandbox
            # The attempt itself takes an agent's last sample, once everything that the agent started is dead.
            if spec.phase is not Phase.AGENT:
                with contextlib.suppress(AgentBenchError, OSError):
                    emit(sandbox.usage())
