"""What an attempt costs when there is nothing to it, and whether the harness grows over many of them.

A trivial attempt: ten tool calls by the scripted agent in one sandbox, Δ, grading of one exit-code check in a fresh one,
log, manifest and record on disk. Setup is prepared beforehand. Run through the command line, as anybody would; the time
of the command itself is in the numbers.

    python -m bench.attempt [--sandbox bwrap|docker] [ATTEMPTS]
"""

from __future__ import annotations

from bench.measuring import Report, parser, reporting, usable
from bench.trivial import scripted, suite

ATTEMPTS = {"bwrap": 500, "docker": 100}
FEW = 20
WANTED_SEC = {"bwrap": 0.13, "docker": 0.65}


def measure(backend: str, count: int, report: Report) -> None:
    with suite() as folder:
        first = scripted(folder, backend, 1, 2)
        report.value("one attempt, environment prepared on the way", first.seconds, "s", backend=backend)
        few = scripted(folder, backend, FEW, 2)
        report.value(f"{FEW} attempts, two workers, each", few.seconds / FEW, "s", backend=backend)
        many = scripted(folder, backend, count, 2)
        report.value(
            f"{count} attempts, two workers, each", many.seconds / count, "s", backend=backend, most=WANTED_SEC[backend]
        )
        alone = scripted(folder, backend, FEW, 1)
        report.value(f"{FEW} attempts, one worker, each", alone.seconds / FEW, "s", backend=backend)
        report.value(f"memory of the harness, peak over {count} attempts", many.memory.peak, "MB", backend=backend)
        if many.memory.growth is not None:
            report.value("  from the second tenth of them to the last", many.memory.growth, "MB", backend=backend)


def main() -> None:
    options = parser(__doc__, sandbox=True)
    options.add_argument("attempts", nargs="?", type=int, metavar="ATTEMPTS", help="500 (bwrap) and 100 (docker)")
    asked = options.parse_args()
    with reporting("attempt", asked.json) as report:
        for backend in usable(asked.sandbox, report):
            measure(backend, asked.attempts or ATTEMPTS[backend], report)


if __name__ == "__main__":
    main()
