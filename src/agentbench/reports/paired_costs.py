"""Costs of the two sides of a paired comparison."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.reports.attempt_costs import (
    PREFERRED,
    WITH_SETUP_AND_GRADING,
    AttemptCosts,
    attempt_costs,
    cost_problem,
    cost_units,
    sum_costs,
)
from agentbench.reports.csv_results import UNKNOWN_UNIT
from agentbench.reports.paired import PairedReport
from agentbench.reports.sources import Side


def cost_of(side: Side) -> float | None:
    """Return the total cost of a side; None if a cost is unknown or units are mixed."""
    return None if len(cost_units(side)) > 1 else sum_costs([trial.cost for trial in side.trials])


def common_unit(report: PairedReport) -> str:
    """Return the unit of the known costs of both sides; empty if it is unknown or they differ."""
    units = _units(report)
    return "".join(units - {UNKNOWN_UNIT}) if len(units) == 1 else ""


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
    if len(_units(report)) > 1:
        return None
    tasks = [pair.task for pair in report.comparison.pairing.pairs]
    costs = attempt_costs((report.a, report.b), tasks, bases)
    return None if None in costs.costs else costs


def no_common_cost(report: PairedReport) -> str:
    """Say why the costs of the two sides cannot be compared; empty if they can."""
    return cost_problem((("A", report.a), ("B", report.b)))


def _units(report: PairedReport) -> frozenset[str]:
    return cost_units(report.a) | cost_units(report.b)
