"""Costs of the two sides of a paired comparison."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.reports.number_format import total
from agentbench.reports.paired import PairedReport
from agentbench.reports.sources import Side


def cost_of(side: Side) -> float | None:
    """Return the total cost of a side; None if a cost is unknown or units are mixed."""
    return None if len(_units(side)) > 1 else _total([trial.cost for trial in side.trials])


def cost_units(report: PairedReport) -> tuple[str, ...]:
    """Return the units of the known costs of both sides."""
    return tuple(sorted(_units(report.a) | _units(report.b)))


def costs_per_attempt(report: PairedReport, *, graded: bool = True) -> tuple[float, float] | None:
    """Return the mean cost of an attempt on each side: the mean over the compared tasks of each task's mean.

    Tasks that the comparison leaves out are left out here too, and every task has the same weight whatever its number of repeats. None
    if a cost is unknown or the units differ. Without `graded`, the cost of checks does not count.
    """
    if len(cost_units(report)) > 1:
        return None
    costs_a, costs_b = (_task_costs(side, graded=graded) for side in (report.a, report.b))
    compared = [pair.task for pair in report.comparison.pairing.pairs]
    mean_a, mean_b = (_mean([costs.get(task) for task in compared]) for costs in (costs_a, costs_b))
    return None if mean_a is None or mean_b is None else (mean_a, mean_b)


def unknown_costs(side: Side) -> int:
    """Return the number of attempts whose cost is unknown."""
    return sum(trial.cost is None for trial in side.trials)


def _units(side: Side) -> set[str]:
    return {row.cost.unit for row in side.run.rows if row.cost.known_total is not None} if side.run else set()


def _task_costs(side: Side, *, graded: bool) -> dict[str, float | None]:
    """Return the mean cost of an attempt at each task; None where a cost is unknown."""
    if graded:
        attempts = [(trial.task, trial.cost) for trial in side.trials]
    else:
        attempts = [(row.task, row.cost.without_grading) for row in (side.run.rows if side.run else ())]
    costs: dict[str, list[float | None]] = {}
    for task, cost in attempts:
        costs.setdefault(task, []).append(cost)
    return {task: _mean(task_costs) for task, task_costs in costs.items()}


def _mean(costs: Sequence[float | None]) -> float | None:
    """Return the mean of costs; None if there are none or one is unknown."""
    cost = _total(costs)
    return None if cost is None or not costs else cost / len(costs)


def _total(costs: Sequence[float | None]) -> float | None:
    """Return the sum of costs; None if one is unknown."""
    known_costs = [cost for cost in costs if cost is not None]
    return total(known_costs) if len(known_costs) == len(costs) else None
