"""Measure grading of real fixes against plain pytest of the same files.

    python -m bench.real FOLDER… [--sandbox bwrap|docker] [--repeats N] [--swebench N]

FOLDER holds tasks with a reference patch and one pytest check, such as those of `ab task from-commit`. For each task, in
turns within one run:

    plain    the check's own command with the sandbox's pytest, in a replica with the reference and the hidden tests
    graded   `ab grade --patch REFERENCE`, warm, as a command of its own

    imports  a Python that only imports click, pydantic and yaml, which every command needs

Plain counts what the command uses, without opening the sandbox. Graded counts everything: the harness process from its
first import, its spawner, and all processes in its sandboxes (for containers only the harness, because the engine starts
them). In the end, all tasks are run once more two at a time, plain and as one `ab grade --predictions --workers 2`, and with
SWE-bench's harness if it is asked for. So there are two numbers for the CPU of a grading: of a command for one patch, and of
one command for all, divided by the tasks.

Goals, each printed as met or missed:

    cpu, a command for one patch      median over tasks of (graded − (3 × plain + 0.5 s)) ≤ 0
                                      90th percentile of (graded − (4 × plain + 1 s)) ≤ 0
    harness process                   ≤ 0.3 s CPU, for one patch (median) and per patch of one command for all
    wall, two workers                 one command for all ≤ 2.5 × plain two at a time + 0.5 s, per task
    cpu, two workers                  one command for all ≤ 3 × plain + 0.5 s, per task (bubblewrap)

Conditions: a quiet machine. CPU seconds grow with the load, because two busy hardware threads of a core slow each other
down; compare `imports` of two runs before comparing anything else. Python must be able to write bytecode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.grade import protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.protected import GradedTree
from agentbench.acceptance.reference import reference_patch
from agentbench.acceptance.replica import base_entries, open_replica, shell
from agentbench.contract.load import LoadedTask
from agentbench.contract.suite import find_tasks
from agentbench.core.errors import AgentBenchError
from agentbench.execution.lab import Lab
from agentbench.workspace.diff.apply import plan_writes
from agentbench.workspace.diff.parse import parse
from bench.cost import Cost, run_measured
from bench.peers.swebench_tasks import grade_with_swebench
from bench.report import Report, argument_parser, available_backends, open_report, quantile
from bench.trivial import AB

REPEATS = 3
WANTED_TASKS, WANTED_LIBRARIES = 30, 10


@dataclass(frozen=True)
class Goal:
    """A limit over the plain time."""

    factor: float
    seconds: float

    def limit(self, plain: float) -> float:
        return self.factor * plain + self.seconds


CPU_MEDIAN, CPU_P90, WALL, HARNESS_SEC = Goal(3, 0.5), Goal(4, 1), Goal(2.5, 0.5), 0.3


@dataclass
class Case:
    """One task with its tree to test, and what its runs cost."""

    task: LoadedTask
    context: GradingContext
    tree: GradedTree
    patch: bytes
    imports: list[Cost] = field(default_factory=list)
    plain: list[Cost] = field(default_factory=list)
    graded: list[Cost] = field(default_factory=list)

    @property
    def library(self) -> str:
        repo = self.task.task.repo
        url = "" if repo == "none" else str(getattr(repo, "url", None) or self.task.folder.parent.name)
        # A mirror may keep every repository in a folder of the same name below that of its library.
        return "/".join(url.rstrip("/").removesuffix(".git").split("/")[-2:])

    def median(self, kind: str, unit: str) -> float:
        costs: list[Cost] = getattr(self, kind)
        return statistics.median(float(getattr(cost, unit)) for cost in costs)

    def excess(self, unit: str, goal: Goal) -> float:
        """Seconds above the goal; negative if it is met."""
        return self.median("graded", unit) - goal.limit(self.median("plain", unit))


def open_case(task: LoadedTask, lab: Lab) -> Case:
    """
    Raises:
        AgentBenchError: the task cannot be prepared.
        ValueError: it is not a task with a reference and one pytest check.
    """
    context = lab.grading_context(lab.prepare(task))
    patch = reference_patch(context)
    if patch is None or [check.parser for check in task.checks] != ["pytest"]:
        raise ValueError("needs a reference and exactly one check with parser pytest")
    base = base_entries(context)
    candidate = Candidate(
        context, base, plan_writes(parse(patch), context.prepared.base_tree).writes, protection_of(context)
    )
    return Case(task, context, candidate.tree, patch)


def run_plain(case: Case) -> Cost:
    """Run the check's command once in a fresh replica; exit if a test fails."""
    check = case.task.checks[0]
    with open_replica(case.context, case.tree) as sandbox:
        before = sandbox.usage().cpu_sec
        start = time.perf_counter()
        done = sandbox.run(shell(case.context, check.command or "", check.timeout_sec))
        wall = time.perf_counter() - start
        after = sandbox.usage().cpu_sec
    if done.timed_out or done.exit_code not in {0, 1}:  # tests that are not required may fail
        sys.exit(f"{case.task.id}: `{check.command}` ended with {done.exit_code}: {done.stdout.kept[-500:]!r}")
    if before is None or after is None:
        sys.exit("this machine cannot measure the CPU time of a sandbox; run `ab doctor`")
    return Cost(after - before, wall)


def run_imports(folder: Path) -> Cost:
    """Import the dependencies of every command in a Python of its own."""
    _, cost = run_measured([sys.executable, "-c", "import click, pydantic.main, pydantic.fields, yaml"], folder / "out")
    return cost


def run_graded(case: Case, backend: str, folder: Path) -> Cost:
    """Grade the reference with a command of its own; exit unless it passes."""
    patch = folder / "reference.patch"
    patch.write_bytes(case.patch)
    argv = ["--task", str(case.task.folder), "--patch", str(patch), "--sandbox", backend]
    return grade([case], argv, folder)


def grade(cases: Sequence[Case], options: Sequence[str], folder: Path) -> Cost:
    """Run `ab grade` and return what it cost; exit unless every reference passes."""
    argv = [str(AB), "grade", *options, "--out", str(folder / "runs"), "--json"]
    code, cost = run_measured(argv, folder / "out")
    text = (folder / "out").read_text(encoding="utf-8", errors="replace")
    attempts = json.loads(text.splitlines()[-1])["attempts"] if code == 0 else []
    failed = {case.task.id for case in cases} - {each["task_id"] for each in attempts if each["result"]["passed"]}
    if failed:
        names = ", ".join(sorted(failed))
        sys.exit(f"measurement discarded: the reference does not pass for {names}: {text[-1000:]}")
    return cost


def run_all_plain(cases: Sequence[Case]) -> Cost:
    """Run every task's command, two at a time, and return what all of them cost."""
    start = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        costs = list(pool.map(run_plain, cases))
    return Cost(sum(cost.cpu for cost in costs), time.perf_counter() - start)


def run_all_graded(cases: Sequence[Case], backend: str, folder: Path) -> Cost:
    """Grade every reference with one command and two workers, and return what all of them cost."""
    predictions = folder / "predictions.jsonl"
    rows = ({"instance_id": case.task.id, "model_patch": case.patch.decode()} for case in cases)
    predictions.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    tasks = [word for case in cases for word in ("--task", str(case.task.folder))]
    options = [*tasks, "--predictions", str(predictions), "--workers", "2", "--sandbox", backend]
    return grade(cases, options, folder)


def measure(backend: str, folders: Sequence[Path], options: argparse.Namespace, report: Report) -> None:
    with Lab(sandbox=backend) as lab, tempfile.TemporaryDirectory(prefix="ab-bench-") as directory:
        folder = Path(directory)
        cases = open_cases([task for path in folders for task in find_tasks(path)], lab, report, backend)
        for case in cases:
            run_graded(case, backend, folder)  # fills the caches
            for _ in range(options.repeats):
                case.imports.append(run_imports(folder))
                case.plain.append(run_plain(case))
                case.graded.append(run_graded(case, backend, folder))
            print(row(case), flush=True)
        add_results(cases, backend, report)
        plain, graded = run_all_plain(cases), run_all_graded(cases, backend, folder)
        add_two_workers(plain, graded, len(cases), backend, report)
    if options.swebench and backend == "docker":
        add_swebench(cases[: options.swebench], report)


def open_cases(tasks: Sequence[LoadedTask], lab: Lab, report: Report, backend: str) -> list[Case]:
    cases: list[Case] = []
    for task in tasks:
        try:
            cases.append(open_case(task, lab))
        except (AgentBenchError, ValueError) as error:
            report.note(f"left out: {task.id}: {error}", backend=backend)
    if not cases:
        sys.exit("no task can be measured")
    libraries = {case.library for case in cases}
    report.value("tasks", len(cases), "tasks", backend=backend, least=WANTED_TASKS)
    report.value("libraries", len(libraries), "libraries", backend=backend, least=WANTED_LIBRARIES)
    return cases


def row(case: Case) -> str:
    plain, graded = ([case.median(kind, unit) for unit in ("cpu", "wall")] for kind in ("plain", "graded"))
    return (
        f"{case.task.id:48.48} cpu {plain[0]:6.2f} → {graded[0]:6.2f} s ({graded[0] / plain[0]:4.1f}×)   "
        f"wall {plain[1]:6.2f} → {graded[1]:6.2f} s   harness {case.median('graded', 'harness'):.2f} s"
    )


def add_results(cases: Sequence[Case], backend: str, report: Report) -> None:
    for unit in ("cpu", "wall"):
        ratios = [case.median("graded", unit) / case.median("plain", unit) for case in cases]
        report.value(f"graded ÷ plain, {unit}, median", statistics.median(ratios), "×", backend=backend)
        report.value(f"graded ÷ plain, {unit}, p90", quantile(ratios, 0.9), "×", backend=backend)
    for name, goal, share in (("median", CPU_MEDIAN, 0.5), ("p90", CPU_P90, 0.9)):
        excess = quantile([case.excess("cpu", goal) for case in cases], share)
        text = f"cpu above {goal.factor:g} × plain + {goal.seconds:g} s, {name}"
        report.value(text, excess, "s", backend=backend, most=0)
    imports = statistics.median(case.median("imports", "cpu") for case in cases)
    report.value("python that imports click, pydantic and yaml, cpu, median", imports, "s", backend=backend)
    harness = [case.median("graded", "harness") for case in cases]
    report.value(
        "harness process, cpu of a command for one grading, median",
        statistics.median(harness),
        "s",
        backend=backend,
        most=HARNESS_SEC,
    )
    report.details += [{"backend": backend, **as_json(case)} for case in cases]


def as_json(case: Case) -> Mapping[str, object]:
    return {
        "task": case.task.id,
        "library": case.library,
        "imports": [asdict(cost) for cost in case.imports],
        "plain": [asdict(cost) for cost in case.plain],
        "graded": [asdict(cost) for cost in case.graded],
    }


def add_two_workers(plain: Cost, graded: Cost, count: int, backend: str, report: Report) -> None:
    """Add what a task costs in one command for all tasks, which shares the start of the harness between them."""
    report.value("plain, two at a time, wall per task", plain.wall / count, "s", backend=backend)
    limit = round(WALL.limit(plain.wall / count), 2)
    report.value("graded, two workers, wall per task", graded.wall / count, "s", backend=backend, most=limit)
    if backend == "bwrap":  # an engine starts the processes of its containers, so their time is not the command's
        report.value("plain, two at a time, cpu per task", plain.cpu / count, "s", backend=backend)
        limit = round(CPU_MEDIAN.limit(plain.cpu / count), 2)
        report.value("graded, one command for all, cpu per task", graded.cpu / count, "s", backend=backend, most=limit)
    text = "harness process, cpu per grading of one command for all"
    report.value(text, graded.harness / count, "s", backend=backend, most=HARNESS_SEC)
    report.details.append({"backend": backend, "all tasks": {"plain": asdict(plain), "graded": asdict(graded)}})


def add_swebench(cases: Sequence[Case], report: Report) -> None:
    """Grade the first tasks with SWE-bench's harness, one after the other, beside our own time for them."""
    walls: list[float] = []
    graded = grade_with_swebench({case.task.id: (case.context, case.patch) for case in cases})
    for case, (name, seconds, resolved) in zip(cases, graded, strict=True):
        walls.append(seconds)
        ours, verdict = case.median("graded", "wall"), "resolved" if resolved else "NOT resolved"
        report.note(f"SWE-bench: {name}: {seconds:.2f} s, {verdict}; ours: {ours:.2f} s", backend="docker")
    report.value("SWE-bench's harness, wall, median", statistics.median(walls), "s", backend="docker")
    ours = statistics.median(case.median("graded", "wall") for case in cases)
    report.value("ours on the same tasks, wall, median", ours, "s", backend="docker")


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    options.add_argument("--repeats", type=int, default=REPEATS, help="turns per task (default: %(default)s)")
    options.add_argument("--swebench", type=int, default=0, metavar="N", help="also grade N tasks with SWE-bench")
    arguments = options.parse_args()
    if sys.dont_write_bytecode:
        sys.exit("unset PYTHONDONTWRITEBYTECODE: compiling the harness at every start would be measured")
    with open_report("real", arguments.json) as report:
        for backend in available_backends(arguments.sandbox, report):
            measure(backend, arguments.folders, arguments, report)


if __name__ == "__main__":
    main()
