"""Measure how long making a task of a commit takes, and what its first grading adds.

    python -m bench.creation REPOSITORY COMMIT [COMMIT…]

Starts with an empty state folder, so the first task pays for the interpreter and all packages; the following ones find what
it left. Each task is then graded for the first time, which must reuse the results of its creation.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from agentbench.contract.suite import find_tasks
from bench.cost import Cost, run_measured
from bench.report import Report, argument_parser, open_report
from bench.trivial import AB


def run(argv: list[str], folder: Path) -> Cost:
    output = folder / "output"
    code, cost = run_measured([str(AB), *argv], output, env={"AB_STATE": str(folder / "state")})
    if code != 0:
        sys.exit(f"{' '.join(argv)}: exit {code}\n{output.read_text(encoding='utf-8', errors='replace')[-2000:]}")
    return cost


def measure(repository: str, commit: str, when: str, folder: Path, report: Report) -> None:
    suite = folder / commit
    created = run(["task", "from-commit", repository, commit, "--suite-dir", str(suite)], folder)
    name = f"{Path(repository).name} {commit[:10]}, {when}"
    report.value(f"{name}: wall", created.wall, "s")
    report.value(f"{name}: cpu", created.cpu, "s")
    report.value(f"{name}: cpu of the harness process", created.harness, "s")
    task = next(iter(find_tasks(suite))).folder
    grade = ["grade", "--task", str(task), "--patch", str(task / "reference.patch"), "--out", str(folder / "runs")]
    first, again = run(grade, folder), run(grade, folder)
    report.value(f"{name}: first grading, wall", first.wall, "s")
    report.value(f"{name}: second grading, wall", again.wall, "s")


def main() -> None:
    options = argument_parser(__doc__)
    options.add_argument("repository")
    options.add_argument("commits", nargs="+", metavar="COMMIT")
    arguments = options.parse_args()
    with open_report("creation", arguments.json) as report, tempfile.TemporaryDirectory(prefix="ab-bench-") as folder:
        for number, commit in enumerate(arguments.commits):
            measure(arguments.repository, commit, "warm" if number else "cold", Path(folder), report)


if __name__ == "__main__":
    main()
