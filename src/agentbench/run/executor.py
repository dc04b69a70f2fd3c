"""Who carries attempts out: threads here, anything else behind the same calls.

An executor is given jobs in the order in which they are to be started. It calls a job to have it done in this process. One
whose workers are other processes or machines takes the job apart instead: `begin` and `adopt` happen here, in the one
process that writes the run directory, and the errand between them is data that goes wherever the workers are. A job that
waits for a person stands aside: another takes its place meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from agentbench.core.errors import InputError

_WAKE_SEC = 0.5
"""The main thread wakes this often, so that a signal is answered at once."""


class Errand(Protocol):
    """The part of a job that can be done elsewhere. It can be pickled, and needs the run directory and the state folder there."""

    def carry_out(self) -> None:
        """Make the attempt, to the end of its own chain.

        Raises:
            RecordError: its folder cannot be written.
        """
        ...


class Job(Protocol):
    """One attempt to be made."""

    def __call__(self) -> None:
        """All of it, in this process."""
        ...

    def begin(self) -> Errand:
        """Register the attempt. What is begun and never adopted is ended and tried again when the run is resumed."""
        ...

    def adopt(self, errand: Any) -> None:  # noqa: ANN401 - the errand that this job began
        """Take into the run what a carried out errand left.

        Raises:
            RecordError: it was not carried out to its end, or cannot be written.
        """
        ...


class Executor(Protocol):
    in_process: bool
    """Whether attempts are made in this process. Where they are not, nothing in memory is shared: caps over several attempts
    cannot be held, and a study that has some is refused."""

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

    in_process = True

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._jobs: Iterator[Callable[[], None]] = iter(())
        self._changed = threading.Condition()
        self._alive = 0
        self._surplus = 0
        """Workers that must leave because somebody who stood aside came back."""
        self._failure: BaseException | None = None
        self._stopped = False

    def carry_out(self, jobs: Iterable[Callable[[], None]]) -> None:
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

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            # One worker always stays: surplus ones are counted from who came back, and each of those still has its job.
            if self._surplus and self._alive > 1:
                self._surplus -= 1
                return None
            return None if self._stopped or self._failure is not None else next(self._jobs, None)


EXECUTORS: Mapping[str, Callable[[int], Executor]] = {"local": LocalThreads}
"""Every executor by its name; each is made with the number of workers."""


def open_executor(name: str, workers: int) -> Executor:
    """
    Raises:
        InputError: there is none of that name.
    """
    make = EXECUTORS.get(name)
    if make is None:
        msg = f"there is no executor '{name}'"
        raise InputError(msg, remedy=f"there are: {', '.join(sorted(EXECUTORS))}")
    return make(workers)
