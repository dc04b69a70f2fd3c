"""How long the command takes to answer, beside a bare interpreter that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.measuring import parser, reporting

TIMES = 20
AB = Path(sys.executable).with_name("ab")


def times_of(argv: list[str]) -> list[float]:
    """Milliseconds of a number of runs, after one that warms the file cache."""
    milliseconds = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        milliseconds.append((time.perf_counter() - start) * 1000)
    return milliseconds[1:]


def main() -> None:
    asked = parser(__doc__).parse_args()
    with reporting("startup", asked.json) as report:
        for name, argv in {
            "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
            "ab --version": [str(AB), "--version"],
            "ab --help": [str(AB), "--help"],
            "ab run --help": [str(AB), "run", "--help"],
        }.items():
            report.times(name, times_of(argv))


if __name__ == "__main__":
    main()
