"""Progress on stderr: one live line on a terminal, a plain line per finished attempt everywhere else."""

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


class Progress:
    """An observer for people. Safe to call from worker threads."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._lock = threading.Lock()
        self._live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._total = 0
        self._done = 0
        self._passed = 0
        self._running: dict[tuple[str, str, int], str] = {}
        self._began = time.monotonic()

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
        from agentbench.grading.headline import headline

        if self._quiet:
            return
        with self._lock:
            self._running.pop(row.key, None)
            self._done += 1
            self._passed += record.result.passed
            label = f"{record.task_id} · {record.variant}" + (f" · repeat {record.repeat}" if record.repeat > 1 else "")
            width = len(str(self._total))
            self._clear()
            click.echo(
                f"[{self._done:>{width}}/{self._total}] {label}: {printable(headline(record))} ({record.duration_sec:.1f} s)",
                err=True,
            )
            self._draw()

    def close(self) -> None:
        with self._lock:
            self._clear()

    def _draw(self) -> None:
        if not self._live or not self._running:
            return
        elapsed = time.monotonic() - self._began
        now = ", ".join(f"{task} ({phase})" for (task, _, _), phase in list(self._running.items())[:4])
        line = f"{self._done}/{self._total} done, {self._passed} passed, {elapsed:.0f} s · {now}"
        columns = shutil.get_terminal_size().columns
        sys.stderr.write("\r\x1b[2K" + line[: columns - 1])
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
