"""A limit on the CPU time of code whose effort depends on untrusted data, such as patterns that come with a run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CpuBudgetSpent(Exception):
    """The code needed more CPU time than the budget has."""


class CpuBudget:
    """CPU time for several pieces of work. Only the main thread can be limited, because only it receives signals.

    Python's regular expressions check for signals while they match, so that a match that would take years ends too.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left = seconds

    @contextmanager
    def spend(self) -> Iterator[None]:
        """Do work with what is left of the budget.

        Raises:
            CpuBudgetSpent: nothing is left, before or during the work.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._left <= 0:
            raise CpuBudgetSpent
        previous = signal.signal(signal.SIGVTALRM, _stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, self._left)
        try:
            yield
        finally:
            self._left = signal.setitimer(signal.ITIMER_VIRTUAL, 0)[0]
            signal.signal(signal.SIGVTALRM, previous)


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise CpuBudgetSpent
