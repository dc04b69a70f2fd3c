"""Measure the start-up time of `ab` next to a bare interpreter, and what `ab grade` imports."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.report import argument_parser, open_report

TIMES = 20
MOST_MODULES = 620
"""Limit that an import by mistake of a library exceeds."""
AB = Path(sys.executable).with_name("ab")


def times_of(argv: list[str]) -> list[float]:
    """Return the milliseconds of each run, after one run that warms the file cache."""
    milliseconds = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        milliseconds.append((time.perf_counter() - start) * 1000)
    return milliseconds[1:]


def imported_for_grading() -> int:
    """Return the number of modules that are loaded before `ab grade` starts to work."""
    program = "import sys, agentbench.cli.launch, agentbench.execution.predictions; print(len(sys.modules))"
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    with open_report("startup", arguments.json) as report:
        for name, argv in {
            "python -I -c pass": [sys.executable, "-I", "-c", "pass"],
            "ab --version": [str(AB), "--version"],
            "ab --help": [str(AB), "--help"],
            "ab run --help": [str(AB), "run", "--help"],
            "imports of ab grade": [
                sys.executable,
                "-c",
                "import agentbench.cli.launch, agentbench.execution.predictions",
            ],
        }.items():
            report.times(name, times_of(argv))
        modules = imported_for_grading()
        report.value("modules that ab grade imports", modules, "modules", most=MOST_MODULES)


if __name__ == "__main__":
    main()
