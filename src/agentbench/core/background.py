"""A thread that makes calls next to its caller. Lighter to import than a pool of `concurrent.futures`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundCalls(Generic[T]):
    """Makes calls one after the other in a thread. Leaving the `with` block waits for the current one and drops the others."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self.closing = threading.Event()
        """Set when no further call is made."""
        self._results: list[T] = []
        self._error: BaseException | None = None

    def start(self, calls: Iterable[Callable[[], T]]) -> None:
        """Start to make the calls, until one fails. May be used once."""
        self._thread = threading.Thread(target=self._make, args=(list(calls),), name=self._name)
        self._thread.start()

    def results(self) -> list[T]:
        """Wait for all calls and return their results, or raise the error of the one that failed."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results

    def _make(self, calls: list[Callable[[], T]]) -> None:
        try:
            for call in calls:
                if self.closing.is_set():
                    return
                self._results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that asks for the results
            self._error = error

    def __enter__(self) -> BackgroundCalls[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.closing.set()
        if self._thread is not None:
            self._thread.join()
