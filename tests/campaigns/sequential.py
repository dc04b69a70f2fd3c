"""Simulates sequential comparisons: error rates, power and expected attempts, against the fixed design.

    python -m tests.campaigns.sequential --studies 10000 --json build/sequential.json

Two models of tasks. *shared*: with probability ρ a task is settled for both methods by the same difficulty (the model of
`ab report power`). *separate*: with probability ρ a task is settled for each method on its own, so that methods of the
same rate differ at tasks, and all repeats of such a task differ alike. Other tasks have independent attempts.
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.intervals import wilson
from agentbench.statistics.sequential.rules import (
    Anytime,
    Futility,
    GroupSequential,
    PlannedBlocks,
    Rule,
    SequentialOutcome,
    Spending,
)
from agentbench.statistics.sequential.simulate import Characteristics, Studies, characteristics

ALPHA = 0.05
CONFIDENCE = 0.99
"""Of the Monte-Carlo interval of an error rate."""
FIXED = GroupSequential(looks=1)
RULES: dict[str, Rule] = {
    "O'Brien-Fleming, 5 looks": GroupSequential(),
    "Pocock, 5 looks": GroupSequential(spending=Spending.POCOCK),
    "anytime, 12 looks": Anytime(looks=12),
}


@dataclass(frozen=True)
class Cell:
    """One simulated situation."""

    tasks: int
    repeats: int
    rate_a: float
    rate_b: float
    correlation: float
    model: str = "shared"

    def studies(self, number: int, seed: int = PROTOCOL_SEED) -> Studies:
        """Draw the outcomes of every attempt."""
        rng = np.random.default_rng([seed, self.tasks, self.repeats, round(1000 * self.correlation)])
        settled = rng.random((number, self.tasks, 1)) < self.correlation
        difficulty = [rng.random((number, self.tasks, 1)) for _ in range(2)]
        sides = []
        for index, rate in enumerate((self.rate_a, self.rate_b)):
            draw = difficulty[index if self.model == "separate" else 0]
            free = rng.random((number, self.tasks, self.repeats)) < rate
            sides.append(np.where(settled, draw < rate, free).astype(np.int64))
        return Studies(*sides)

    def __str__(self) -> str:
        return f"{self.tasks}×{self.repeats}, {self.rate_a:g} vs. {self.rate_b:g}, ρ {self.correlation:g} {self.model}"


DESIGNS = ((12, 1), (30, 1), (60, 1), (200, 1), (12, 3), (30, 3), (60, 3), (30, 5))
NULL = [
    Cell(tasks, repeats, rate, rate, correlation, model)
    for tasks, repeats in DESIGNS
    for rate in (0.1, 0.5, 0.8)
    for correlation in (0.0, 0.5, 0.9)
    for model in (("shared", "separate") if correlation else ("shared",))
]
DIFFERENT = [
    Cell(30, 1, 0.3, 0.7, 0.5),
    Cell(60, 1, 0.4, 0.6, 0.5),
    Cell(60, 1, 0.3, 0.6, 0.5),
    Cell(200, 1, 0.4, 0.5, 0.5),
    Cell(200, 1, 0.4, 0.55, 0.5),
    Cell(30, 3, 0.4, 0.6, 0.5),
    Cell(60, 3, 0.4, 0.55, 0.5),
    Cell(60, 3, 0.4, 0.55, 0.5, "separate"),
    Cell(30, 5, 0.3, 0.5, 0.5),
]
MARGIN = 0.1
AT_MARGIN = [
    Cell(tasks, repeats, rate, round(rate + MARGIN, 3), correlation, model)
    for tasks, repeats in ((60, 1), (200, 1), (60, 3), (200, 3))
    for rate in (0.0, 0.1, 0.5, 0.85)
    for correlation, model in ((0.0, "shared"), (0.5, "shared"), (0.9, "shared"), (0.5, "separate"))
]
EQUAL = [Cell(tasks, repeats, 0.5, 0.5, 0.9) for tasks, repeats in ((60, 1), (200, 1), (60, 3), (200, 3))]


def error_rates(cells: Sequence[Cell], studies: int) -> Iterator[tuple[str, Cell, Characteristics]]:
    """Yield how often each rule decides for a method."""
    for cell in cells:
        drawn = cell.studies(studies)
        for name, rule in RULES.items():
            yield name, cell, characteristics(rule, drawn)


def equivalence_errors(cells: Sequence[Cell], studies: int) -> Iterator[tuple[str, Cell, Characteristics]]:
    """Yield how often each rule with a margin decides for equivalence."""
    for cell in cells:
        drawn = cell.studies(studies)
        for name, rule in with_margin().items():
            yield name, cell, characteristics(rule, drawn)


def with_margin() -> dict[str, Rule]:
    return {
        "O'Brien-Fleming, 5 looks": GroupSequential(margin=MARGIN),
        "Pocock, 5 looks": GroupSequential(spending=Spending.POCOCK, margin=MARGIN),
        "anytime, 12 looks": Anytime(looks=12, margin=MARGIN),
    }


def exact_error(rule: GroupSequential, tasks: int, discordant: float) -> float:
    """Compute the exact type I error with one attempt per task, when a share of the tasks is discordant.

    The state is the number of discordant tasks and their balance; blocks are added one at a time. No simulation.
    """
    from agentbench.statistics.paired import mcnemar_exact
    from agentbench.statistics.sequential.boundaries import nominal_level, spending_bounds
    from agentbench.statistics.sequential.rules import look_schedule

    planned = PlannedBlocks(tasks, 1)
    schedule = look_schedule(rule, planned)
    bounds = spending_bounds(rule.spending, tuple(blocks / tasks for blocks in schedule), rule.alpha)
    mass = np.zeros((tasks + 2, 2 * tasks + 3))
    mass[0, tasks + 1] = 1.0
    error = 0.0
    done = 0
    for blocks, bound in zip(schedule, bounds, strict=True):
        for _ in range(blocks - done):
            after = (1 - discordant) * mass
            after[1:, 1:] += discordant / 2 * mass[:-1, :-1]
            after[1:, :-1] += discordant / 2 * mass[:-1, 1:]
            mass = after
        done = blocks
        for total in range(tasks + 1):
            for balance in range(-total, total + 1, 2):
                only_a, only_b = (total - balance) // 2, (total + balance) // 2
                if mcnemar_exact(only_a, only_b) <= nominal_level(bound):
                    error += mass[total, balance + tasks + 1]
                    mass[total, balance + tasks + 1] = 0.0
    return float(error)


def upper_bound(share: float, studies: int) -> float:
    """Return the upper end of the Monte-Carlo interval of a share."""
    return wilson(share * studies, studies, CONFIDENCE)[1]


def tolerated(studies: int) -> float:
    """Return the largest simulated error rate that is compatible with a true one of ALPHA."""
    return ALPHA + NormalDist().inv_cdf(CONFIDENCE) * math.sqrt(ALPHA * (1 - ALPHA) / studies)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000, help="simulated studies per cell")
    parser.add_argument("--json", type=Path, help="write every number to this file")
    arguments = parser.parse_args()
    started = time.monotonic()
    document: dict[str, object] = {"studies": arguments.studies, "seed": PROTOCOL_SEED}
    failed = [
        *print_null(arguments.studies, document),
        *print_exact(document),
        *print_power(arguments.studies, document),
        *print_equivalence(arguments.studies, document),
    ]
    print(f"\n{time.monotonic() - started:.0f} s, {len(failed)} cells above the limit")
    for line in failed:
        print(f"  {line}")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(document, indent=1))
    return 1 if failed else 0


def print_null(studies: int, document: dict[str, object]) -> list[str]:
    """Print the type I error of equal methods by design: the mean and the largest over rates, correlations and models."""
    rows = list(error_rates(NULL, studies))
    document["type_1"] = [_row(name, cell, result) for name, cell, result in rows]
    print(f"## Type I error, {studies} studies per cell\n")
    print("| rule | tasks × repeats | cells | mean | largest | 99% upper bound | where |")
    print("|---|---|---|---|---|---|---|")
    for name in RULES:
        for tasks, repeats in DESIGNS:
            found = [(r.decided, c) for n, c, r in rows if n == name and (c.tasks, c.repeats) == (tasks, repeats)]
            worst, cell = max(found, key=lambda item: item[0])
            mean = sum(share for share, _ in found) / len(found)
            where = f"rate {cell.rate_a:g}, ρ {cell.correlation:g}, {cell.model}" if worst else ""
            bound = upper_bound(worst, studies)
            print(f"| {name} | {tasks} × {repeats} | {len(found)} | {mean:.4f} | {worst:.4f} | {bound:.4f} | {where} |")
    return [f"type I {n}: {c}: {r.decided:.4f}" for n, c, r in rows if r.decided > tolerated(studies)]


def print_exact(document: dict[str, object]) -> list[str]:
    """Print the exact type I error with one attempt per task, the largest over shares of discordant tasks."""
    print("\n## Exact type I error, one attempt per task, largest over 20 shares of discordant tasks\n")
    print("| rule | 10 tasks | 20 tasks | 40 tasks | 80 tasks |")
    print("|---|---|---|---|---|")
    failed, numbers = [], {}
    for name, rule in RULES.items():
        if not isinstance(rule, GroupSequential):
            continue
        cells = []
        for tasks in (10, 20, 40, 80):
            worst = max(exact_error(rule, tasks, share / 20) for share in range(1, 21))
            numbers[f"{name}, {tasks} tasks"] = worst
            cells.append(f"{worst:.4f}")
            if worst > ALPHA:
                failed.append(f"exact type I {name}, {tasks} tasks: {worst:.4f}")
        print(f"| {name} | {' | '.join(cells)} |")
    document["exact_type_1"] = numbers
    return failed


def print_power(studies: int, document: dict[str, object]) -> list[str]:
    """Print power and expected attempts of different methods, and how many attempts the fixed design needs."""
    print(f"\n## Power and expected attempts, {studies} studies per cell\n")
    print("| tasks × repeats | rates | ρ | planned | fixed: power | rule | power | expected attempts | saved |")
    print("|---|---|---|---|---|---|---|---|---|")
    rules = {**RULES, "O'Brien-Fleming, futility 10% for 0.2": GroupSequential(futility=Futility(0.2))}
    kept = []
    for cell in [*DIFFERENT, Cell(60, 1, 0.5, 0.5, 0.5), Cell(60, 3, 0.5, 0.5, 0.5)]:
        drawn = cell.studies(studies)
        fixed = characteristics(FIXED, drawn)
        for name, rule in rules.items():
            result = characteristics(rule, drawn)
            kept.append({**_row(name, cell, result), "fixed_power": fixed.decided})
            saved = 1 - result.attempts / result.planned_attempts
            print(
                f"| {cell.tasks} × {cell.repeats} | {cell.rate_a:g}, {cell.rate_b:g} | {cell.correlation:g} {cell.model}"
                f" | {result.planned_attempts} | {fixed.decided:.3f} | {name} | {result.decided:.3f}"
                f" | {result.attempts:.0f} | {saved:.0%} |"
            )
    document["power"] = kept
    return []


def print_equivalence(studies: int, document: dict[str, object]) -> list[str]:
    """Print how often methods that differ by the margin are called equivalent, and equal methods."""
    rows = list(equivalence_errors(AT_MARGIN, studies))
    equal = list(equivalence_errors(EQUAL, studies))
    document["equivalence"] = [_row(name, cell, result) for name, cell, result in (*rows, *equal)]
    print(f"\n## Equivalence within {MARGIN:g}, {studies} studies per cell\n")
    print(
        "| rule | tasks × repeats | cells at the margin | largest error | where | equal methods: equivalent | attempts |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in with_margin():
        for tasks, repeats in ((60, 1), (200, 1), (60, 3), (200, 3)):
            size = (tasks, repeats)
            found = [
                (r.shares[SequentialOutcome.EQUIVALENT], c)
                for n, c, r in rows
                if n == name and (c.tasks, c.repeats) == size
            ]
            worst, cell = max(found, key=lambda item: item[0])
            (same,) = [r for n, c, r in equal if n == name and (c.tasks, c.repeats) == size]
            print(
                f"| {name} | {tasks} × {repeats} | {len(found)} | {worst:.4f}"
                f" | rate {cell.rate_a:g}, ρ {cell.correlation:g}, {cell.model}"
                f" | {same.shares[SequentialOutcome.EQUIVALENT]:.3f} | {same.attempts:.0f} of {same.planned_attempts} |"
            )
    limit = tolerated(studies)
    return [
        f"equivalence {n}: {c}: {r.shares[SequentialOutcome.EQUIVALENT]:.4f}"
        for n, c, r in rows
        if r.shares[SequentialOutcome.EQUIVALENT] > limit
    ]


def _row(name: str, cell: Cell, result: Characteristics) -> dict[str, object]:
    shares = {outcome.value: share for outcome, share in result.shares.items()}
    return {"rule": name, **asdict(cell), **shares, "attempts": result.attempts, "planned": result.planned_attempts}


if __name__ == "__main__":
    raise SystemExit(main())
