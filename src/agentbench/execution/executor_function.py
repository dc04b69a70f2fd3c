"""Executors of plug-ins: one function that calls the attempts of a run, and its adapter to the protocol of all executors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agentbench.core.errors import HarnessError
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

if TYPE_CHECKING:
    from agentbench.execution.job import Observer
    from agentbench.execution.lab import Lab
    from agentbench.execution.plan import PlanRow

BUILT_IN = ("local", "ray")
_WAKE_SEC = 0.5


class AttemptCall(Protocol):
    """Makes one attempt, and returns when its record is written. Called once."""

    def __call__(self) -> None: ...


class ExecutorFunction(Protocol):
    """Runs the attempts of a run in this process; the plug-in of kind `executor`.

    Gets the attempts one after the other, each to be called once, and the number of attempts that may run at a time.
    Taking one from the iterable registers it in the run directory, so an executor takes it when it can start it. It returns
    when all of them have ended, and may call them from several threads.

    Examples:
        >>> import agentbench as ab
        >>> def one_by_one(attempts: list[ab.AttemptCall], workers: int) -> None:
        ...     for attempt in attempts:
        ...         attempt()
        >>> one_by_one([lambda: print("made")], 1)  # or: ab.run(…, executor=one_by_one)
        made
    """

    def __call__(self, attempts: Iterable[AttemptCall], workers: int, /) -> None: ...


OTHER_EXECUTORS: Extensions[ExecutorFunction] = Extensions(Kind.EXECUTOR, BUILT_IN)


class FunctionExecutor:
    """Gives the jobs to the function of a plug-in. A job that waits for a person keeps its worker."""

    def __init__(self, name: str, function: ExecutorFunction, workers: int) -> None:
        self._name = name
        self._function = function
        self._workers = workers
        self._changed = threading.Condition()
        self._running = 0
        self._left = 0
        """Jobs that were taken and have not ended."""
        self._failure: BaseException | None = None

    def require(self, lab: Lab, rows: Sequence[PlanRow], observer: Observer) -> None:
        lab.require_all([row.task for row in rows])

    def run(self, jobs: Iterable[AttemptCall]) -> None:
        source = _LockedIterator(jobs, stopped=lambda: self._failure is not None, taken=self._take)
        try:
            self._function(source, self._workers)
        except BaseException as error:
            own = isinstance(error, Exception) and self._failure is None
            self._failure = self._failure or error
            if own:
                msg = f"executor '{self._name}' raised {type(error).__name__}: {error}"
                raise HarnessError(msg) from error
            raise
        self.join()
        if self._failure is not None:
            raise self._failure
        if self._left or not source.exhausted:
            raise HarnessError(f"executor '{self._name}' returned before it had made all attempts")

    def join(self) -> None:
        with self._changed:
            while self._running:
                self._changed.wait(_WAKE_SEC)

    def yield_worker(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        """Do nothing: the function has returned."""

    def _take(self, job: AttemptCall) -> AttemptCall:
        with self._changed:
            self._left += 1
        return partial(self._call, job)

    def _call(self, job: AttemptCall) -> None:
        with self._changed:
            self._running += 1
        try:
            job()
        except BaseException as error:
            with self._changed:
                self._failure = self._failure or error
            raise
        finally:
            with self._changed:
                self._running -= 1
                self._left -= 1
                self._changed.notify_all()


class _LockedIterator:
    """Hands out jobs to several threads, until one has failed."""

    def __init__(
        self,
        jobs: Iterable[AttemptCall],
        *,
        stopped: Callable[[], bool],
        taken: Callable[[AttemptCall], AttemptCall],
    ) -> None:
        self._jobs = iter(jobs)
        self._stopped = stopped
        self._taken = taken
        self._lock = threading.Lock()
        self.exhausted = False

    def __iter__(self) -> Iterator[AttemptCall]:
        return self

    def __next__(self) -> AttemptCall:
        with self._lock:
            job = None if self._stopped() else next(self._jobs, None)
            if job is None:
                self.exhausted = True
                raise StopIteration
            return self._taken(job)
