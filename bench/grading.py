"""What grading adds to the time of the checks themselves, and whether many predictions in one command stay cheap.

    python -m bench.grading [--sandbox bwrap|docker] [--predictions N]

Overhead: a patch made elsewhere is graded twenty times, one after the other; from the time of each attempt that of its checks
is taken away. Once with one check that is a command, once with the bundled toy-median (30 tests by id with canaries, and a probe
in sandboxes of its own). In bulk: trivial predictions at two workers.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import agentbench
from bench.measuring import Report, parser, reporting, usable
from bench.trivial import PATCH, Ran, ab, suite

TIMES = 20
BULK = {"bwrap": 1000, "docker": 300}
WANTED_MS = {"bwrap": 300.0, "docker": 600.0}
GROWTH_MB = 10
TOY = Path(agentbench.__file__).parent / "demo" / "toy-median"
TOY_PATCH = "reference.patch"


@dataclass(frozen=True)
class Patch:
    """A patch for a task that lies in a folder."""

    task: Path
    text: str


def graded(patch: Patch, backend: str, *, times: int, workers: int) -> Ran:
    folder = patch.task.parent
    predictions = folder.parent / "predictions.jsonl"
    row = json.dumps({"instance_id": patch.task.name, "model_name_or_path": "bench", "model_patch": patch.text})
    predictions.write_text(f"{row}\n" * times, encoding="utf-8")
    arguments = ["grade", "--task", str(patch.task), "--predictions", str(predictions)]
    ran = ab(folder.parent, [*arguments, "--workers", str(workers), "--sandbox", backend])
    ran.expect_passed(times)
    return ran


def overheads(ran: Ran) -> list[float]:
    """Milliseconds of each grading without its checks' own."""
    found = []
    for record in ran.records():
        checks = record["checks"]
        if not isinstance(checks, list):
            sys.exit(f"a record without checks: {record['attempt_id']}")
        own = sum(float(check["duration_sec"]) for check in checks)
        found.append((float(str(record["duration_sec"])) - own) * 1000)
    return found


def measure(backend: str, count: int, report: Report) -> None:
    with suite() as folder:
        trivial = Patch(folder / "tasks" / "bench" / "trivial", PATCH)
        overhead("one command's", trivial, backend, report)
        bulk(trivial, backend, count, report)
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as made:
        task = Path(made) / "tasks" / "toy-median"
        shutil.copytree(TOY, task)
        overhead("pytest's and a probe's", Patch(task, (task / TOY_PATCH).read_text(encoding="utf-8")), backend, report)


def overhead(whose: str, patch: Patch, backend: str, report: Report) -> None:
    graded(patch, backend, times=1, workers=1)
    ran = graded(patch, backend, times=TIMES, workers=1)
    report.times(f"grading over {whose} own time", overheads(ran), backend=backend, goals={"p50": WANTED_MS[backend]})
    report.value("  each, with the command that grades them", ran.seconds / TIMES, "s", backend=backend)


def bulk(patch: Patch, backend: str, count: int, report: Report) -> None:
    ran = graded(patch, backend, times=count, workers=2)
    report.value(f"{count} predictions in bulk, two workers, each", ran.seconds / count, "s", backend=backend)
    report.value("  in all", ran.seconds, "s", backend=backend)
    report.value("  memory of the harness, peak", ran.memory.peak, "MB", backend=backend)
    if ran.memory.growth is not None:
        growth = ran.memory.growth
        report.value("  from the second tenth to the last", growth, "MB", backend=backend, most=GROWTH_MB)


def main() -> None:
    options = parser(__doc__, sandbox=True)
    options.add_argument("--predictions", type=int, help="in bulk: 1000 (bwrap) and 300 (docker)")
    asked = options.parse_args()
    with reporting("grading", asked.json) as report:
        for backend in usable(asked.sandbox, report):
            measure(backend, asked.predictions or BULK[backend], report)


if __name__ == "__main__":
    main()
