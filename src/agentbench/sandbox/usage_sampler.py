"""Samples the resource usage of live sandboxes, less often the longer they live."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

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

Emit = Callable[[Phase, Usage], None]


class UsageSampler:
    """Samples one sandbox from its own thread: first after a second, then less and less often.

    Emits nothing if the sandbox used no CPU since the last sample.
    """

    def __init__(
        self, sandbox: Sandbox, emit: Callable[[Usage], None], *, first_sec: float = FIRST_INTERVAL_SEC
    ) -> None:
        self._sandbox = sandbox
        self._emit = emit
        self._first_sec = first_sec
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name=f"sampler-{sandbox.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        interval = self._first_sec
        last: float | None = None
        while not self._stop.wait(interval):
            interval = min(interval * GROWTH, MAX_INTERVAL_SEC)
            # If the sandbox died, its next user gets the error with the reason.
            with contextlib.suppress(AgentBenchError, OSError):
                usage = self._sandbox.usage()
                if self._stop.is_set():
                    return
                if usage.cpu_sec is None or usage.cpu_sec != last:
                    self._emit(usage)
                last = usage.cpu_sec


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
            self._emit(spec.phase, usage)

        labelled = replace(spec, labels={**spec.labels, **self._labels})
        with self._backend.open(labelled, prepared) as sandbox:
            with UsageSampler(sandbox, emit, first_sec=self._first_sec):
                yield sandbox
            # The attempt itself takes an agent's last sample, once everything that the agent started is dead.
            if spec.phase is not Phase.AGENT:
                with contextlib.suppress(AgentBenchError, OSError):
                    emit(sandbox.usage())
