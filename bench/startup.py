"""How long the command takes to answer, beside a bare interpreter that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.conditions import conditions

TIMES = 20
AB = Path(sys.executable).with_name("ab")


def median_of(argv: list[str]) -> float:
    """Median seconds of a number of runs, after one that warms the file cache."""
    seconds = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def main() -> None:
    print(f"conditions: {conditions()}; median of {TIMES}")
    for name, argv in {
        "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
        "ab --version": [str(AB), "--version"],
        "ab --help": [str(AB), "--help"],
        "ab run --help": [str(AB), "run", "--help"],
    }.items():
        print(f"{name:<20} {median_of(argv) * 1000:7.1f} ms")


if __name__ == "__main__":
    main()
