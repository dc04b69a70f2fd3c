"""Progress on stderr: one live line on a terminal, a plain line per finished attempt everywhere else."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import click

from agentbench.cli.live_line import LiveLine

if TYPE_CHECKING:
    from agentbench.record.schema import AttemptRecord
    from agentbench.run.plan import PlanRow
    from agentbench.sandbox.protocol import SetupStep


class Progress:
    """An observer for people. Safe to call from worker threads."""

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
        click.echo(f"warning: {message}", err=True)

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
            self._line.tell(
                f"[{self._done:>{width}}/{self._total}] {label}: {headline(record)} ({record.duration_sec:.1f} s)"
            )
            self._draw()

    def close(self) -> None:
        with self._lock:
            self._line.show("")

    def _draw(self) -> None:
        elapsed = time.monotonic() - self._began
        now = ", ".join(f"{task} ({phase})" for (task, _, _), phase in list(self._running.items())[:4])
        done = f"{self._done}/{self._total} done, {self._passed} passed, {elapsed:.0f} s · {now}"
        self._line.show(done if self._running else "")
