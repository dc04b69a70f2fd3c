"""Progress on stderr: a status line with a clock on a terminal, and one plain line per finished attempt."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.notify import announcer
from agentbench.cli.output import attempt_label, called_as
from agentbench.core.text import printable, shell_quoted

if TYPE_CHECKING:
    from agentbench.execution.job import ClusterStatus
    from agentbench.execution.operator import PendingQuestion
    from agentbench.execution.plan import PlanRow
    from agentbench.record.schema import AttemptRecord
    from agentbench.sandbox.protocol import SetupStep

TICK_SEC = 1.0
COLOURS = {"PASS": "green", "FAIL": "red", "ERROR": "yellow", "INVALID": "yellow", "ALTERED": "red", "PAUSED": "yellow"}
"""Colours by the first word of a verdict; `ab show` uses the same."""
SHOWN_ATTEMPTS = 4
"""Running attempts in the status line."""
SHOWN_NODES = 4


def colours_verdicts(stream: object) -> bool:
    """Return whether output to this stream is coloured: only on a terminal, and neither in CI nor if NO_COLOR is set."""
    isatty = getattr(stream, "isatty", None)
    plain = os.environ.get("NO_COLOR") or os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return bool(isatty and isatty()) and not plain


def clock(seconds: float) -> str:
    """Format a duration: `42 s`, `3:07 min`, `1:02:07 h`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02} h"
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"


def cluster_line(status: ClusterStatus) -> str:
    """Describe a cluster: `2 nodes (10.0.0.4: 3, 10.0.0.5: 2), 7 waiting, 4.1 MB sent, 0.8 MB received`."""
    busiest = sorted(status.attempts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name}: {attempts}" for name, attempts in busiest[:SHOWN_NODES])
    more = f" and {len(busiest) - SHOWN_NODES} more" if len(busiest) > SHOWN_NODES else ""
    transfer = f"{status.sent_bytes / 1e6:.1f} MB sent, {status.received_bytes / 1e6:.1f} MB received"
    return f"{_nodes(len(busiest))} ({shown}{more}), {status.waiting} waiting, {transfer}"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


class LiveLine:
    """A status line that is overwritten in place; invisible if stderr is not a terminal."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._live = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._shown = ""

    @property
    def live(self) -> bool:
        """Whether the line is visible."""
        return self._live

    def print(self, line: str, *, verdict: str = "") -> None:
        """Print a line above the status line. `verdict` is the part of it that is coloured on a terminal."""
        self._write("")
        line, verdict = printable(line), printable(verdict)
        colour = COLOURS.get(verdict.split(" ", 1)[0])
        if colour and colours_verdicts(sys.stderr):
            line = line.replace(verdict, click.style(verdict, fg=colour, bold=True), 1)
        click.echo(line, err=True)
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
        self._announcer = announcer()
        self._lock = threading.Lock()
        self._line = LiveLine(quiet=quiet)
        self._total = 0
        self._done = 0
        self._passed = 0
        self._spent = 0.0
        self.spent_before = 0.0
        """What a resumed study had spent before, also on attempts that are repeated."""
        self._unit = ""
        self._running: dict[tuple[str, str, int], tuple[str, float]] = {}
        """Phase of each running attempt and when it began."""
        self._cluster: ClusterStatus | None = None
        self._began = time.monotonic()
        self._closed = threading.Event()
        self._clock = threading.Thread(target=self._tick, name="progress", daemon=True)

    def warn(self, message: str) -> None:
        with self._lock:
            self._line.print(f"warning: {message}")

    def note(self, message: str) -> None:
        """Print a line about the run as a whole."""
        if not self._quiet:
            with self._lock:
                self._line.print(message)

    def installing(self, agent: str, step: SetupStep) -> None:
        if not self._quiet:
            click.echo(f"{agent}: installing: {step.command} ({step.duration_sec:.0f} s)", err=True)

    def asked(self, run: Path, question: PendingQuestion) -> None:
        """Print a question to the operator with the lines to type, also if nothing else is printed."""
        answer = f"{called_as()} operator decide {shell_quoted(run)} --question {question.id}"
        lines = [
            f"PAUSED {attempt_label(*question.key)}: waiting for your decision until {question.deadline_at}",
            f"  {question.rule}: {question.detail}",
            *(f"  | {line}" for line in question.call.splitlines()),
            "  Answer in another terminal; without an answer the attempt is stopped:",
            f"    {answer} --continue --reason 'why it may go on'",
            f"    {answer} --stop --reason 'why it must not'",
        ]
        self._announcer.asked(run, question)
        with self._lock:
            if colours_verdicts(sys.stderr):
                sys.stderr.write("\a")
            self._line.print(lines[0], verdict=lines[0])
            for line in lines[1:]:
                self._line.print(line)

    def cluster(self, status: ClusterStatus) -> None:
        """Show the nodes of a cluster in the status line, and print a line when they change."""
        with self._lock:
            before, self._cluster = self._cluster, status
            if not self._quiet and (before is None or before.attempts.keys() != status.attempts.keys()):
                names = ", ".join(sorted(status.attempts)) or "none"
                self._line.print(f"cluster: {_nodes(len(status.attempts))}: {names}")
            self._draw()

    def running(self) -> int:
        """Return the number of running attempts. Takes no lock: called from a signal handler."""
        return len(self._running)

    def planned(self, rows: int) -> None:
        if not rows:
            self.note("Nothing is left to do: every attempt of the run has a result.")
        self._total += rows
        if self._line.live and not self._clock.is_alive():
            self._clock.start()

    def started(self, row: PlanRow) -> None:
        self.phase(row, "starting")

    def phase(self, row: PlanRow, phase: str) -> None:
        with self._lock:
            self._running[row.key] = phase, time.monotonic()
            self._draw()

    def finished(self, row: PlanRow, record: AttemptRecord) -> None:
        from agentbench.record.headline import headline

        with self._lock:
            self._running.pop(row.key, None)
            if self._quiet:
                return
            self._done += 1
            self._passed += record.result.passed
            self._spent += record.cost.total
            self._unit = record.cost.unit
            label = attempt_label(*record.key)
            width = len(str(self._total))
            verdict = headline(record)
            self._line.print(
                f"[{self._done:>{width}}/{self._total}] {label}: {verdict} ({record.duration_sec:.1f} s)",
                verdict=verdict,
            )
            self._draw()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._line.show("")

    def _tick(self) -> None:
        while not self._closed.wait(TICK_SEC):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        if not self._running or self._closed.is_set():
            self._line.show("")
            return
        now = time.monotonic()
        elapsed = now - self._began
        parts = [f"{self._done}/{self._total} done, {self._passed} passed", clock(elapsed)]
        if self._done:
            parts.append(f"about {clock(elapsed / self._done * (self._total - self._done))} left")
        spent = self.spent_before + self._spent
        if spent and self._unit == "usd":
            before = f", {self.spent_before:.2f} of it before" if self.spent_before else ""
            parts.append(f"{spent:.2f} usd{before}")
        if self._cluster is not None:
            parts.append(cluster_line(self._cluster))
        attempts = [
            f"{attempt_label(*key)} ({phase} {clock(now - since)})"
            for key, (phase, since) in list(self._running.items())
        ]
        more = len(attempts) - SHOWN_ATTEMPTS
        running = ", ".join(attempts[:SHOWN_ATTEMPTS]) + (f" and {more} more" if more > 0 else "")
        self._line.show(f"{' · '.join(parts)} · {running}")
