"""Mean cost of an attempt of each method at the same tasks, without phases that depend on the machine.

Setup is paid by the first attempt that needs a prepared environment, so the run that found an empty cache has all of it. Seconds of
grading depend on the load of the machine, and are most of the cost of an agent without a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.reports.escape import plain
from agentbench.reports.number_format import plural, total
from agentbench.reports.sources import Side
from agentbench.statistics.trials import Rate

PREFERRED = (("setup", "acceptance", "judge", "review"), ("setup", "judge", "review"), ("judge", "review"), ())
"""Phases that are left out, in order of preference. Only results that do not state any count in full."""
WITH_SETUP_AND_GRADING = PREFERRED[2:]
_NAMES = {"setup": "setup", "acceptance": "grading", "judge": "judging", "review": "reviewing"}


@dataclass(frozen=True, slots=True)
class AttemptCosts:
    costs: tuple[float | None, ...]
    """One per method; None if a cost is unknown."""
    basis: str
    """`without setup and grading`, and judging and reviewing if they cost something; empty for the total cost."""


def attempt_costs(
    sides: Sequence[Side], tasks: Sequence[str], bases: Sequence[Sequence[str]] = PREFERRED
) -> AttemptCosts:
    """Return the mean over these tasks of each task's mean cost, all on the same basis.

    Grading counts if an attempt would cost nothing without it, and the total if results do not state their phases.
    """
    costs: tuple[float | None, ...] = ()
    for left_out in bases:
        costs = tuple(_mean_cost(side, tasks, left_out) for side in sides)
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(costs) and (all(known) or "acceptance" not in left_out):
            return AttemptCosts(costs, _basis(sides, left_out))
    return AttemptCosts(costs, "")


def _basis(sides: Sequence[Side], left_out: Sequence[str]) -> str:
    rows = [row for side in sides if side.run for row in side.run.rows]
    free = {"judge": not any(row.cost.judge for row in rows), "review": not any(row.cost.human for row in rows)}
    names = [_NAMES[phase] for phase in left_out if not free.get(phase)]
    return f"without {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}" if names else ""


def _mean_cost(side: Side, tasks: Iterable[str], left_out: Sequence[str]) -> float | None:
    """Return the mean over tasks of each task's mean cost without some phases; None if a cost is unknown."""
    by_task: dict[str, list[float | None]] = {}
    for task, cost in _costs(side, left_out):
        by_task.setdefault(task, []).append(cost)
    return _mean([_mean(by_task.get(task, ())) for task in tasks])


def sum_costs(costs: Sequence[float | None]) -> float | None:
    """Return the sum of costs; None if one is unknown."""
    known_costs = [cost for cost in costs if cost is not None]
    return total(known_costs) if len(known_costs) == len(costs) else None


def cost_units(side: Side) -> frozenset[str]:
    """Return the units of the known costs of a side, with `UNKNOWN_UNIT` for those of a CSV file that does not state it."""
    if side.run is None:
        return side.stated_units
    return frozenset(row.cost.unit for row in side.run.rows if row.cost.known_total is not None)


def cost_problem(sides: Sequence[tuple[str, Side]]) -> str:
    """Say why the costs of named sides cannot be compared: `A usd, B tokens`, or which are unknown. Empty if they can."""
    units = {name: sorted(cost_units(side)) for name, side in sides}
    if len({unit for of_side in units.values() for unit in of_side}) > 1:
        stated = (f"{name} {' and '.join(map(plain, of_side))}" for name, of_side in units.items() if of_side)
        return f"the costs have different units: {', '.join(stated)}"
    unknown = {name: sum(trial.cost is None for trial in side.trials) for name, side in sides}
    return "; ".join(
        f"{name}: the cost of {plural(count, 'attempt')} is unknown" for name, count in unknown.items() if count
    )


def _costs(side: Side, left_out: Sequence[str]) -> Iterable[tuple[str, float | None]]:
    """Return task and cost of every attempt that started. Others cost nothing, or only their setup."""
    if side.run is None:  # a CSV file does not state phases
        started = (trial for trial in side.trials if trial.value(Rate.CONTRACT) is not None or trial.cost != 0)
        return [] if left_out else [(trial.task, trial.cost) for trial in started]
    rows = [row for row in side.run.rows if row.started]
    return [(row.task, row.cost.without(left_out) if left_out else row.cost.known_total) for row in rows]


def _mean(costs: Sequence[float | None]) -> float | None:
    """Return the mean of costs; None if there are none or one is unknown."""
    cost = sum_costs(costs)
    return None if cost is None or not costs else cost / len(costs)
