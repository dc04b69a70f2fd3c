"""Ctrl-C during a study: the first ends what is in flight, further ones cannot keep that from being written down."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def patiently() -> Iterator[None]:
    """Inside, the first interrupt is raised as ever; every further one is answered with words."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    if before[signal.SIGINT] == signal.SIG_IGN:
        # Whoever started us in the background wants it so.
        yield
        return
    try:
        for number in _SIGNALS:
            signal.signal(number, _first)
        yield
    finally:
        # After an interrupt there is nothing left to interrupt but the exit itself, and its code is the answer.
        interrupted = signal.getsignal(signal.SIGINT) == _again
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)


def _first(_number: int, _frame: FrameType | None) -> None:
    for number in _SIGNALS:
        signal.signal(number, _again)
    _say("interrupted: what is in flight is ended and written down (a few seconds)")
    raise KeyboardInterrupt


def _again(_number: int, _frame: FrameType | None) -> None:
    _say(
        f"still writing down what was in flight; `kill -9 {os.getpid()}` loses nothing either: `ab run --resume` goes on"
    )


def _say(text: str) -> None:
    # Not click.echo: the signal may have come in the middle of one, and its stream's lock is not ours to take twice.
    os.write(2, f"\n{text}\n".encode())
