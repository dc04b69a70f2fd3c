"""Measure the cost of a trivial attempt and the harness's memory growth over many attempts.

An attempt here is ten tool calls by the scripted agent in one sandbox, its patch, grading of one exit-code check in a fresh
sandbox, and log, manifest and record on disk. The environment is prepared beforehand. Attempts run through `ab run`; the
numbers include the time of the command itself.

    python -m bench.attempt [--sandbox bwrap|docker] [ATTEMPTS]
"""

from __future__ import annotations

from bench.report import Report, argument_parser, available_backends, open_report
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
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("attempts", nargs="?", type=int, metavar="ATTEMPTS", help="500 (bwrap) and 100 (docker)")
    arguments = options.parse_args()
    with open_report("attempt", arguments.json) as report:
        for backend in available_backends(arguments.sandbox, report):
            measure(backend, arguments.attempts or ATTEMPTS[backend], report)


if __name__ == "__main__":
    main()
