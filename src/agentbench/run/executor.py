"""Executors: where attempts run. Worker threads of this process, or anything else behind the same protocol.

An executor gets jobs in the order in which they start. Calling a job makes the attempt in this process. An executor with
workers in other processes or on other machines splits the job: `begin` and `adopt` happen here, in the only process that
writes the run directory, and the remote attempt between them is data that goes to a worker. A job that waits for a person
yields its worker to another job.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from agentbench.core.errors import InputError
from agentbench.run.job import AttemptJob

_WAKE_SEC = 0.5
"""The main thread wakes this often, so that signals are handled promptly."""


class Executor(Protocol):
    in_process: bool
    """Whether attempts run in this process. If not, they share no memory: caps over several attempts cannot be enforced,
    and a study that has such caps is rejected."""

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


class LocalThreads:
    """Worker threads of this process."""

    in_process = True

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: Iterator[Callable[[], None]] = iter(())
        self._changed = threading.Condition()
        self._alive = 0
        self._surplus = 0
        """Workers that must exit because a job that had yielded its worker continued."""
        self._failure: BaseException | None = None
        self._stopped = False

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


EXECUTORS: Mapping[str, Callable[[int], Executor]] = {"local": LocalThreads}
"""Executor factories by name; each takes the number of workers."""


def open_executor(name: str, workers: int) -> Executor:
    """Create the executor called `name`.

    Raises:
        InputError: unknown executor.
    """
    factory = EXECUTORS.get(name)
    if factory is None:
        raise InputError(f"unknown executor '{name}'", remedy=f"available executors: {', '.join(sorted(EXECUTORS))}")
    return factory(workers)
