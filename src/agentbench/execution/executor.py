"""Executors: where attempts run. Worker threads of this process, or anything else behind the same protocol.

An executor takes jobs one after the other, each when a worker is free for it: taking a job registers its attempt. Calling a
job makes the attempt in this process. An executor with workers on other machines brings the evidence into the attempt's folder
and takes its record into the run here, in the only process that writes the run directory. A job that waits for a person yields
its worker to another job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from agentbench.core.errors import InputError
from agentbench.execution.executor_function import OTHER_EXECUTORS, FunctionExecutor
from agentbench.execution.executor_options import ExecutorOptions
from agentbench.execution.job import AttemptJob, Observer
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow

_WAKE_SEC = 0.5
"""The main thread wakes this often, so that signals are handled promptly."""


class Executor(Protocol):
    def require(self, lab: Lab, rows: Sequence[PlanRow], observer: Observer) -> None:
        """Reject attempts that no worker can make, before anything runs.

        Raises:
            InputError, SandboxUnavailable: with every reason.
        """
        ...

    def run(self, jobs: Iterable[AttemptJob]) -> None:
        """Run all jobs to their end. Can be called again for further jobs.

        Raises:
            BaseException: the first that a job raised, or that interrupted the wait. Nothing more was started then;
                running jobs continue until `join`.
        """
        ...

    def join(self) -> None:
        """Wait until no job is running."""
        ...

    def yield_worker(self) -> AbstractContextManager[None]:
        """Let another job run while the calling job waits inside this context."""
        ...

    def close(self) -> None:
        """Release workers that are not threads of this process. Nothing is running any more."""
        ...


class LocalThreads:
    """Worker threads of this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: Iterator[Callable[[], None]] = iter(())
        self._changed = threading.Condition()
        self._alive = 0
        self._surplus = 0
        """Workers that must exit because a job that had yielded its worker continued."""
        self._failure: BaseException | None = None
        self._stopped = False

    def require(self, lab: Lab, rows: Sequence[PlanRow], observer: Observer) -> None:
        lab.require_all([row.task for row in rows])

    def close(self) -> None:
        """Do nothing: threads end with their last job."""

    def run(self, jobs: Iterable[Callable[[], None]]) -> None:
        self._jobs = iter(jobs)
        self._surplus = 0
        try:
            for _ in range(self._workers):
                self._start()
            self._wait()
        except BaseException:
            self._stopped = True
            raise
        if self._failure is not None:
            raise self._failure

    def join(self) -> None:
        with self._changed:
            while self._alive:
                self._changed.wait(_WAKE_SEC)

    @contextmanager
    def yield_worker(self) -> Iterator[None]:
        self._start()
        try:
            yield
        finally:
            with self._changed:
                self._surplus += 1

    def _wait(self) -> None:
        with self._changed:
            while self._alive and self._failure is None:
                self._changed.wait(_WAKE_SEC)
            self._stopped = self._stopped or self._failure is not None

    def _start(self) -> None:
        with self._changed:
            self._alive += 1
            thread = threading.Thread(target=self._work, name=f"attempt-{self._alive}")
        thread.start()

    def _work(self) -> None:
        try:
            while (job := self._next()) is not None:
                job()
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            with self._changed:
                self._failure = self._failure or error
        finally:
            with self._changed:
                self._alive -= 1
                self._changed.notify_all()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            # One worker always stays: each surplus worker stands for a job that continued and still runs.
            if self._surplus and self._alive > 1:
                self._surplus -= 1
                return None
            return None if self._stopped or self._failure is not None else next(self._jobs, None)


def _open_ray(options: ExecutorOptions) -> Executor:
    from agentbench.execution.cluster.executor import RayExecutor  # noqa: PLC0415 - few runs need a cluster

    return RayExecutor(options.workers, options.ray_address)


EXECUTORS: Mapping[str, Callable[[ExecutorOptions], Executor]] = {
    "local": lambda options: LocalThreads(options.workers),
    "ray": _open_ray,
}
"""Executor factories by name."""


def open_executor(options: ExecutorOptions) -> Executor:
    """Create the executor that the options name.

    Raises:
        InputError: unknown executor, or one whose package is not installed.
    """
    factory = EXECUTORS.get(options.name)
    if factory is not None:
        return factory(options)
    if not OTHER_EXECUTORS.has(options.name):
        names = ", ".join(sorted((*EXECUTORS, *OTHER_EXECUTORS.names())))
        raise InputError(f"unknown executor '{options.name}'", remedy=f"available executors: {names}")
    return FunctionExecutor(options.name, OTHER_EXECUTORS.get(options.name), options.workers)
