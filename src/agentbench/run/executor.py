"""Who carries attempts out: threads here, anything else behind the same two calls.

An attempt is an ordinary blocking function. An executor starts jobs in the order given, as many at a time as it has workers;
it knows nothing of what they do. A job that waits for a person stands aside: another takes its place meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Job = Callable[[], None]

_WAKE_SEC = 0.5
"""The main thread wakes this often, so that a signal is answered at once."""


class Executor(Protocol):
    def carry_out(self, jobs: Iterable[Job]) -> None:
        """Run all jobs to their end.

        Raises:
            BaseException: the first that a job raised, or that interrupted the wait. Nothing more was started then;
                what is running goes on until `join`.
        """
        ...

    def join(self) -> None:
        """Wait until nothing is running any more."""
        ...

    def standing_aside(self) -> AbstractContextManager[None]:
        """For a job that only waits: while this is entered another job may run in its place."""
        ...


class LocalThreads:
    """Worker threads of this process."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: Iterator[Job] = iter(())
        self._changed = threading.Condition()
        self._alive = 0
        self._surplus = 0
        """Workers that must leave because somebody who stood aside came back."""
        self._failure: BaseException | None = None
        self._stopped = False

    def carry_out(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
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
    def standing_aside(self) -> Iterator[None]:
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
        except BaseException as error:  # noqa: BLE001 - raised again where the jobs were given
            with self._changed:
                self._failure = self._failure or error
        finally:
            with self._changed:
                self._alive -= 1
                self._changed.notify_all()

    def _next(self) -> Job | None:
        with self._changed:
            # One worker always stays: surplus ones are counted from who came back, and each of those still has its job.
            if self._surplus and self._alive > 1:
                self._surplus -= 1
                return None
            return None if self._stopped or self._failure is not None else next(self._jobs, None)
