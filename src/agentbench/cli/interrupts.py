"""Ctrl-C during a run: the first stops running attempts, further ones do not keep their records from being saved.

The records are saved under `saving`, which ignores Ctrl-C: a run whose attempts are done ends as if it had not been pressed.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def graceful_interrupts(running: Callable[[], int]) -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM, and only print a message at further ones.

    `running` returns the number of attempts that the first interrupt stops.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before[signal.SIGINT] == signal.SIG_IGN:
        # Started in the background with SIGINT ignored: leave it so.
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, _still_saving)
        count = running()
        _print(f"Stopping {count} running attempt{'' if count == 1 else 's'} and saving their records…")
        raise KeyboardInterrupt

    try:
        for number in _SIGNALS:
            signal.signal(number, stop)
        yield
    finally:
        # After an interrupt only the exit itself is left, and a further signal must not change its code.
        interrupted = signal.getsignal(signal.SIGINT) == _still_saving
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)


@contextmanager
def saving() -> Iterator[None]:
    """Only print a message at SIGINT and SIGTERM, while the results of a run are written."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    before = {number: signal.signal(number, _still_saving) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _still_saving(_number: int, _frame: FrameType | None) -> None:
    _print(
        f"Still saving records. To stop now, run `kill -9 {os.getpid()}`; "
        "nothing is lost, and `ab run --resume RUN` continues the run."
    )


def _print(text: str) -> None:
    # Not click.echo: the signal can interrupt one, which holds the lock of its stream.
    os.write(2, f"\n{text}\n".encode())
