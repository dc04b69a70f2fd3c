"""Steps of a long command with the time since its start: in place on a terminal, else as lines."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from agentbench.cli.progress import LiveLine

_TICK_SEC = 1.0
_LINE_SEC = 30.0
"""Shortest time between two lines about the status if stderr is not a terminal."""


class StepProgress:
    """Shows the current step with a ticking clock. Safe to call from worker threads."""

    def __init__(self) -> None:
        self._line = LiveLine()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._shown = ""
        self._printed_at = float("-inf")
        self._closed = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if self._line.live:
            self._clock.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closed.set()
        self.show("")

    def step(self, text: str) -> None:
        """Report the step that begins now."""
        if self._line.live:
            self.show(text)
        else:
            self.print(text)

    def print(self, text: str) -> None:
        """Print a line that stays, with the time since the start."""
        with self._lock:
            self._line.print(f"{text} ({self._elapsed()})")

    def show(self, text: str) -> None:
        """Replace the status line. If stderr is not a terminal, print it as a line, but not too often."""
        with self._lock:
            changed, self._shown = text != self._shown, text
            self._draw()
            now = time.monotonic()
            if text and changed and not self._line.live and now - self._printed_at >= _LINE_SEC:
                self._printed_at = now
                self._line.print(f"{text} ({self._elapsed()})")

    def _draw(self) -> None:
        self._line.show(f"{self._elapsed()} · {self._shown}" if self._shown else "")

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:.0f} s"

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_SEC):
            with self._lock:
                self._draw()
