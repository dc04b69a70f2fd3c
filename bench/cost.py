"""Measure the CPU and wall time of a command, and the share of its own process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds of one run; `harness` is the part of `cpu` that the harness process itself used."""

    cpu: float
    wall: float
    harness: float = 0.0


def run_measured(argv: Sequence[str], output: Path, *, env: Mapping[str, str] | None = None) -> tuple[int, Cost]:
    """Run a command with its output in a file. Return its exit status and what it and its processes cost."""
    start = time.perf_counter()
    with output.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        wall = time.perf_counter() - start
        harness = _own_cpu(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, Cost(usage.ru_utime + usage.ru_stime, wall, harness)


def _own_cpu(pid: int) -> float:
    """Return the CPU seconds of a process that has ended and was not waited for yet, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
