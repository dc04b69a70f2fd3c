"""Measure the start-up time of `ab` next to a bare interpreter."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.report import argument_parser, open_report

TIMES = 20
AB = Path(sys.executable).with_name("ab")


def times_of(argv: list[str]) -> list[float]:
    """Return the milliseconds of each run, after one run that warms the file cache."""
    milliseconds = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        milliseconds.append((time.perf_counter() - start) * 1000)
    return milliseconds[1:]


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    with open_report("startup", arguments.json) as report:
        for name, argv in {
            "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
            "ab --version": [str(AB), "--version"],
            "ab --help": [str(AB), "--help"],
            "ab run --help": [str(AB), "run", "--help"],
        }.items():
            report.times(name, times_of(argv))


if __name__ == "__main__":
    main()
