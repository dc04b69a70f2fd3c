"""Costs of the two sides of a paired comparison."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.reports.attempt_costs import (
    PREFERRED,
    WITH_SETUP_AND_GRADING,
    AttemptCosts,
    attempt_costs,
    cost_problem,
    sum_costs,
)
from agentbench.reports.attempt_costs import cost_units as units_of
from agentbench.reports.paired import PairedReport
from agentbench.reports.sources import Side


def cost_of(side: Side) -> float | None:
    """Return the total cost of a side; None if a cost is unknown or units are mixed."""
    return None if len(units_of(side)) > 1 else sum_costs([trial.cost for trial in side.trials])


def cost_units(report: PairedReport) -> tuple[str, ...]:
    """Return the units of the known costs of both sides."""
    return tuple(sorted(units_of(report.a) | units_of(report.b)))


def costs_per_attempt(report: PairedReport) -> AttemptCosts | None:
    """Return the mean cost of an attempt on each side: the mean over the compared tasks of each task's mean.

    Tasks that the comparison leaves out are left out here too, and every task has the same weight whatever its number of repeats. None
    if a cost is unknown or the units differ.
    """
    return _comparable(report, WITH_SETUP_AND_GRADING)


def compared_costs(report: PairedReport) -> AttemptCosts | None:
    """Return the same without phases that depend on the machine; None if a cost is unknown or the units differ."""
    return _comparable(report, PREFERRED)


def _comparable(report: PairedReport, bases: Sequence[Sequence[str]]) -> AttemptCosts | None:
    if len(cost_units(report)) > 1:
        return None
    tasks = [pair.task for pair in report.comparison.pairing.pairs]
    costs = attempt_costs((report.a, report.b), tasks, bases)
    return None if None in costs.costs else costs


def no_common_cost(report: PairedReport) -> str:
    """Say why the costs of the two sides cannot be compared; empty if they can."""
    return cost_problem((("A", report.a), ("B", report.b)))
