"""Measure the overhead of grading over the time of its checks, and the cost of grading many predictions.

    python -m bench.grading [--sandbox bwrap|docker] [--predictions N]

Overhead: a given patch is graded twenty times in sequence; the overhead is the duration of an attempt minus that of its
checks. Measured with a single command check and with the bundled toy-median (30 tests by id with canary tests, and a probe in
its own sandboxes). In bulk: trivial predictions with two workers.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import agentbench
from bench.report import Report, argument_parser, available_backends, open_report
from bench.trivial import PATCH, AbRun, run_ab, suite

TIMES = 20
BULK = {"bwrap": 1000, "docker": 300}
WANTED_MS = {"bwrap": 300.0, "docker": 600.0}
GROWTH_MB = 10
TOY = Path(agentbench.__file__).parent / "demo" / "toy-median"
TOY_PATCH = "reference.patch"


@dataclass(frozen=True)
class Patch:
    """A patch for the task in a folder."""

    task: Path
    text: str


def grade(patch: Patch, backend: str, *, times: int, workers: int) -> AbRun:
    folder = patch.task.parent
    predictions = folder.parent / "predictions.jsonl"
    row = json.dumps({"instance_id": patch.task.name, "model_name_or_path": "bench", "model_patch": patch.text})
    predictions.write_text(f"{row}\n" * times, encoding="utf-8")
    arguments = ["grade", "--task", str(patch.task), "--predictions", str(predictions)]
    ran = run_ab(folder.parent, [*arguments, "--workers", str(workers), "--sandbox", backend])
    ran.expect_passed(times)
    return ran


def overheads(ran: AbRun) -> list[float]:
    """Return the milliseconds of each grading minus those of its checks."""
    milliseconds = []
    for record in ran.records():
        checks = record["checks"]
        if not isinstance(checks, list):
            sys.exit(f"record without checks: {record['attempt_id']}")
        in_checks = sum(float(check["duration_sec"]) for check in checks)
        milliseconds.append((float(str(record["duration_sec"])) - in_checks) * 1000)
    return milliseconds


def measure(backend: str, count: int, report: Report) -> None:
    with suite() as folder:
        trivial = Patch(folder / "tasks" / "bench" / "trivial", PATCH)
        overhead("one command's", trivial, backend, report)
        bulk(trivial, backend, count, report)
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as directory:
        task = Path(directory) / "tasks" / "toy-median"
        shutil.copytree(TOY, task)
        overhead("pytest's and a probe's", Patch(task, (task / TOY_PATCH).read_text(encoding="utf-8")), backend, report)


def overhead(whose: str, patch: Patch, backend: str, report: Report) -> None:
    grade(patch, backend, times=1, workers=1)
    ran = grade(patch, backend, times=TIMES, workers=1)
    report.times(f"grading over {whose} own time", overheads(ran), backend=backend, goals={"p50": WANTED_MS[backend]})
    report.value("  each, with the command that grades them", ran.seconds / TIMES, "s", backend=backend)


def bulk(patch: Patch, backend: str, count: int, report: Report) -> None:
    ran = grade(patch, backend, times=count, workers=2)
    report.value(f"{count} predictions in bulk, two workers, each", ran.seconds / count, "s", backend=backend)
    report.value("  in all", ran.seconds, "s", backend=backend)
    report.value("  memory of the harness, peak", ran.memory.peak, "MB", backend=backend)
    if ran.memory.growth is not None:
        growth = ran.memory.growth
        report.value("  from the second tenth to the last", growth, "MB", backend=backend, most=GROWTH_MB)


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument(
        "--predictions", type=int, help="predictions in bulk (default: 1000 for bwrap, 300 for docker)"
    )
    arguments = options.parse_args()
    with open_report("grading", arguments.json) as report:
        for backend in available_backends(arguments.sandbox, report):
            measure(backend, arguments.predictions or BULK[backend], report)


if __name__ == "__main__":
    main()
