"""The randomisation plan: which method attempts which task in which stage, and in which order.

The order comes from NumPy's PCG64 bit generator, whose raw stream is the same on every machine and in every version. Each
repeat of a stage has a stream of its own, so more repeats or later stages never change the rows before them. A row exists
once: a later stage adds only the attempts that earlier stages did not make.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from agentbench.contract.problem import KeyProblems
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.pilot.design.pilot_file import STAGES, Stages

HEADER = ("order", "stage", "task_id", "stratum", "method", "repeat")


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task that takes part, and its stratum."""

    task_id: str
    stratum: str


@dataclass(frozen=True, slots=True)
class PlanLine:
    """One attempt of the plan: a line of `plan.csv`."""

    order: int
    stage: str
    task_id: str
    stratum: str
    method: str
    repeat: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Return (task, method, repeat), as records have it."""
        return (self.task_id, self.method, self.repeat)


def make_plan(tasks: Sequence[PlannedTask], methods: Sequence[str], stages: Stages, seed: int) -> tuple[PlanLine, ...]:
    """List every attempt of all stages in the order in which they start.

    Every method gets the same tasks and repeats. Within a repeat, tasks come in random order, and all methods attempt a task
    one after the other, in random order too.
    """
    ordered = sorted(tasks, key=lambda task: task.task_id)
    lines: list[PlanLine] = []
    planned: set[tuple[str, int]] = set()
    for index, stage in enumerate(STAGES):
        chosen = _feasibility_tasks(ordered, stages.feasibility.tasks_per_stratum, seed) if index == 0 else ordered
        for repeat in range(1, getattr(stages, stage).repeats + 1):
            keys = _raw(seed, (index, repeat), len(chosen) * (1 + len(methods)))
            for position in _order(keys[: len(chosen)]):
                task = chosen[position]
                if (task.task_id, repeat) in planned:
                    continue
                planned.add((task.task_id, repeat))
                start = len(chosen) + position * len(methods)
                turns = _order(keys[start : start + len(methods)])
                lines += [
                    PlanLine(len(lines) + 1 + turn, stage, task.task_id, task.stratum, methods[method], repeat)
                    for turn, method in enumerate(turns)
                ]
    return tuple(lines)


def _feasibility_tasks(tasks: Sequence[PlannedTask], per_stratum: int, seed: int) -> list[PlannedTask]:
    """Draw some tasks of every stratum."""
    keys = _raw(seed, (len(STAGES), 0), len(tasks))
    drawn: Counter[str] = Counter()
    chosen: list[PlannedTask] = []
    for position in _order(keys):
        task = tasks[position]
        drawn[task.stratum] += 1
        if drawn[task.stratum] <= per_stratum:
            chosen.append(task)
    return sorted(chosen, key=lambda task: task.task_id)


def _raw(seed: int, stream: tuple[int, int], count: int) -> list[int]:
    from numpy.random import PCG64, SeedSequence  # noqa: PLC0415 - slow import

    return [int(number) for number in PCG64(SeedSequence(seed, spawn_key=stream)).random_raw(count)]


def _order(keys: Sequence[int]) -> list[int]:
    """Return the positions sorted by their random keys."""
    return sorted(range(len(keys)), key=lambda position: (keys[position], position))


# --- plan.csv ---------------------------------------------------------------------------------------------------------


def plan_text(lines: Sequence[PlanLine]) -> str:
    """Return the plan as the text of `plan.csv`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(astuple(line) for line in lines)
    return out.getvalue()


def parse_plan(text: str, name: str = "plan.csv") -> tuple[PlanLine, ...]:
    """Parse `plan.csv`.

    Raises:
        ContractError: with every line that is not one of a plan.
    """
    rows = csv.reader(io.StringIO(text))
    if tuple(next(rows, ())) != HEADER:
        raise ContractError(f"{name} is not a plan", problems=(f"{name}:1: expected the columns {','.join(HEADER)}",))
    lines: list[PlanLine] = []
    problems: list[str] = []
    for number, row in enumerate(rows, start=2):
        try:
            order, stage, task_id, stratum, method, repeat = row
            lines.append(PlanLine(int(order), stage, task_id, stratum, method, int(repeat)))
        except ValueError:
            problems.append(f"{name}:{number}: expected {len(HEADER)} columns, with whole numbers in order and repeat")
    if problems:
        raise ContractError(f"{name}: {len(problems)} invalid lines", problems=tuple(problems))
    return tuple(lines)


def plan_differences(given: Sequence[PlanLine], expected: Sequence[PlanLine], methods: Sequence[str]) -> Iterator[str]:
    """Describe how a plan file differs from the plan that `pilot.yaml` gives: what is unbalanced first."""
    yield from imbalances(given, methods)
    for number, (line, wanted) in enumerate(zip(given, expected, strict=False), start=2):
        if line != wanted:
            yield f"plan.csv:{number}: expected {_shown(wanted)}; got {_shown(line)}"
            break
    if len(given) != len(expected):
        yield f"plan.csv: expected {len(expected)} attempts; got {len(given)}"


def imbalances(lines: Sequence[PlanLine], methods: Sequence[str]) -> Iterator[str]:
    """Describe where methods do not get the same attempts."""
    counts = Counter((line.stage, line.task_id, line.repeat, line.method) for line in lines)
    blocks = dict.fromkeys((line.stage, line.task_id, line.repeat) for line in lines)
    for stage, task_id, repeat in blocks:
        for method in methods:
            number = counts[stage, task_id, repeat, method]
            if number != 1:
                what = "is missing" if number == 0 else f"is planned {number} times"
                yield f"unbalanced: {method}, task {task_id}, repeat {repeat} of stage {stage} {what}"
    unknown = sorted({line.method for line in lines} - set(methods))
    yield from (f"unbalanced: method {method} is not in pilot.yaml" for method in unknown)


def _shown(line: PlanLine) -> str:
    return f"{line.order},{line.stage},{line.task_id},{line.method},{line.repeat}"


def design_problems(tasks: Sequence[PlannedTask], lines: Sequence[PlanLine]) -> KeyProblems:
    """Describe why a design cannot be analysed: strata with one task, stages without attempts."""
    strata = Counter(task.stratum for task in tasks)
    for stratum, number in sorted(strata.items()):
        if number < 2:
            yield ("strata",), f"stratum {stratum} has one task; at least 2 are needed, or use fewer keys here"
    sizes = Counter(line.stage for line in lines)
    for stage in STAGES:
        if not sizes[stage]:
            message = f"stage {stage} has no attempts: earlier stages already make all of them"
            yield ("stages", stage, "repeats"), f"{message}; give it more repeats than they have"
