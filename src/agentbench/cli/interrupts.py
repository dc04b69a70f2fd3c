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
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def graceful_interrupts(running: Callable[[], int]) -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM, and only print a message at further ones.

    `running` returns the number of attempts that the first interrupt stops.
    """
    before = _handled_signals()
    interrupted = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        for number in before:
            signal.signal(number, _still_saving)
        count = running()
        attempts = "attempt and saving its record" if count == 1 else "attempts and saving their records"
        _print(f"Stopping {count} running {attempts}…")
        raise KeyboardInterrupt

    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        # After an interrupt only the exit itself is left, and a further signal must not change its code.
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)


@contextmanager
def saving() -> Iterator[None]:
    """Only print a message at SIGINT and SIGTERM, while the results of a run are written."""
    before = _handled_signals()
    try:
        for number in before:
            signal.signal(number, _still_saving)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handled_signals() -> dict[int, Any]:
    """Return the signals to handle, with their handlers; a program started in the background ignores SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}


def _still_saving(_number: int, _frame: FrameType | None) -> None:
    _print(
        f"Still saving records. To stop now, run `kill -9 {os.getpid()}`; "
        "nothing is lost, and `ab run --resume RUN` continues the run."
    )


def _print(text: str) -> None:
    # Not click.echo: the signal can interrupt one, which holds the lock of its stream.
    os.write(2, f"\n{text}\n".encode())
