"""Progress on stderr: a status line on a terminal, and one plain line per finished attempt."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING

import click

from agentbench.core.text import printable

if TYPE_CHECKING:
    from agentbench.record.schema import AttemptRecord
    from agentbench.run.plan import PlanRow
    from agentbench.sandbox.protocol import SetupStep


class LiveLine:
    """A status line that is overwritten in place; invisible if stderr is not a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._shown = ""

    @property
    def live(self) -> bool:
        """Whether the line is visible."""
        return self._live

    def print(self, line: str) -> None:
        """Print a line above the status line."""
        self._write("")
        click.echo(printable(line), err=True)
        self._write(self._shown)

    def show(self, status: str) -> None:
        """Replace the status line; an empty one clears it."""
        self._shown = printable(status)
        self._write(self._shown)

    def _write(self, text: str) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[2K" + text[: shutil.get_terminal_size().columns - 1])
            sys.stderr.flush()


class Progress:
    """Observer that prints the progress of a run. Safe to call from worker threads."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._line = LiveLine(quiet=quiet)
        self._total = 0
        self._done = 0
        self._passed = 0
        self._running: dict[tuple[str, str, int], str] = {}
        self._began = time.monotonic()

    def warn(self, message: str) -> None:
        with self._lock:
            self._line.print(f"warning: {message}")

    def installing(self, agent: str, step: SetupStep) -> None:
        if not self._quiet:
            click.echo(f"{agent}: installing: {step.command} ({step.duration_sec:.0f} s)", err=True)

    def running(self) -> int:
        """Return the number of running attempts. Takes no lock: called from a signal handler."""
        return len(self._running)

    def planned(self, rows: int) -> None:
        self._total += rows

    def started(self, row: PlanRow) -> None:
        with self._lock:
            self._running[row.key] = "starting"
            self._draw()

    def phase(self, row: PlanRow, phase: str) -> None:
        with self._lock:
            self._running[row.key] = phase
            self._draw()

    def finished(self, row: PlanRow, record: AttemptRecord) -> None:
        from agentbench.record.headline import headline

        with self._lock:
            self._running.pop(row.key, None)
            if self._quiet:
                return
            self._done += 1
            self._passed += record.result.passed
            label = f"{record.task_id} · {record.variant}" + (f" · repeat {record.repeat}" if record.repeat > 1 else "")
            width = len(str(self._total))
            self._line.print(
                f"[{self._done:>{width}}/{self._total}] {label}: {headline(record)} ({record.duration_sec:.1f} s)"
            )
            self._draw()

    def close(self) -> None:
        with self._lock:
            self._line.show("")

    def _draw(self) -> None:
        elapsed = time.monotonic() - self._began
        running = ", ".join(f"{task} ({phase})" for (task, _, _), phase in list(self._running.items())[:4])
        status = f"{self._done}/{self._total} done, {self._passed} passed, {elapsed:.0f} s · {running}"
        self._line.show(status if self._running else "")
