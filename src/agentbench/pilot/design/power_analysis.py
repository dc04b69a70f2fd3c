"""The power analysis of a pilot: `power.json`.

For every plausible success rate and correlation within tasks, simulates how often the planned comparison would detect the
effect that matters, and finds the smallest effect that it detects with the target power. The least favourable combination
decides. A check that power does not drop with more tasks, repeats or effect guards the simulation itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.pilot.design.pilot_file import PowerAssumptions
from agentbench.statistics.power import Design, Power, deciding_test, required_discordant, sanity, simulate_power

SIMULATIONS = 2_000
MAX_TASKS = 512
MAX_REPEATS = 32
"""Largest numbers that are tried."""
_STEP = 0.01
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """One combination of assumptions."""

    rate: float
    correlation: float
    power: float
    error: float
    """Standard error of the simulated power."""
    detectable: float | None
    """The smallest effect detected with the target power; None if there is none."""


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    assumptions: PowerAssumptions
    tasks: int
    repeats: int
    seed: int
    scenarios: tuple[Scenario, ...]
    tasks_needed: int | None
    """The fewest tasks that reach the target with these repeats; None if more than MAX_TASKS are needed."""
    repeats_needed: int | None
    """The fewest repeats that reach the target with these tasks."""
    problems: tuple[str, ...]
    """Violations of monotonicity."""

    @property
    def worst(self) -> Scenario:
        return min(self.scenarios, key=lambda scenario: scenario.power)

    @property
    def supported(self) -> bool:
        """Whether every scenario reaches the target, and the simulation passed its check."""
        return self.worst.power >= self.assumptions.target and not self.problems


@cache
def analyse_power(assumptions: PowerAssumptions, tasks: int, repeats: int, seed: int) -> PowerAnalysis:
    """Simulate all scenarios for a number of tasks and of repeats. The same input gives the same numbers.

    It takes seconds, and several criteria and files need the same.
    """
    designs = [
        Design(max(2, tasks), repeats, rate, rate + assumptions.effect, correlation)
        for rate, correlation in itertools.product(assumptions.rates, assumptions.correlations)
    ]
    scenarios = []
    for design in designs:
        simulated = _simulated(design, assumptions, seed)
        scenarios.append(
            Scenario(
                design.rate_a,
                design.correlation,
                round(simulated.power, _DIGITS) if tasks > 1 else 0.0,
                round(simulated.error, _DIGITS),
                _detectable(design, assumptions, seed) if tasks > 1 else None,
            )
        )

    def enough(count_tasks: int, count_repeats: int) -> bool:
        sizes = (replace(design, tasks=count_tasks, repeats=count_repeats) for design in designs)
        return all(_simulated(size, assumptions, seed).power >= assumptions.target for size in sizes)

    return PowerAnalysis(
        assumptions,
        tasks,
        repeats,
        seed,
        tuple(scenarios),
        _smallest(2, lambda count: enough(count, repeats), MAX_TASKS),
        _smallest(1, lambda count: enough(max(2, tasks), count), MAX_REPEATS) if tasks > 1 else None,
        sanity(designs[0], simulations=SIMULATIONS // 2, seed=seed),
    )


def _simulated(design: Design, assumptions: PowerAssumptions, seed: int) -> Power:
    """Simulate a design, with the same draws wherever it is judged: a size that is recommended is accepted."""
    return simulate_power(design, alpha=assumptions.alpha, simulations=SIMULATIONS, seed=seed)


def _detectable(design: Design, assumptions: PowerAssumptions, seed: int) -> float | None:
    """Return the smallest effect, in steps of one point, that reaches the target."""

    def detected(steps: int) -> bool:
        larger = replace(design, rate_b=min(1.0, design.rate_a + steps * _STEP))
        return _simulated(larger, assumptions, seed).power >= assumptions.target

    most = int((1 - design.rate_a) / _STEP + 1e-9)
    steps = _smallest(1, detected, most)
    return None if steps is None else round(steps * _STEP, _DIGITS)


def _smallest(least: int, holds: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number for which a condition that stays true holds; None if it does not hold for `most`."""
    low, high = least, least
    while not holds(high):
        if high >= most:
            return None
        low, high = high + 1, min(most, high * 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def power_json(analysis: PowerAnalysis) -> dict[str, Json]:
    """Return the content of `power.json`."""
    assumptions = analysis.assumptions
    return {
        "tasks": analysis.tasks,
        "repeats": analysis.repeats,
        "effect": assumptions.effect,
        "alpha": assumptions.alpha,
        "target_power": assumptions.target,
        "test": deciding_test(analysis.repeats),
        "differing_tasks_needed": required_discordant(analysis.repeats, assumptions.alpha),
        "simulations": SIMULATIONS,
        "seed": analysis.seed,
        "scenarios": [
            {
                "rate": scenario.rate,
                "intra_task_correlation": scenario.correlation,
                "power": scenario.power,
                "standard_error": scenario.error,
                "minimum_detectable_effect": scenario.detectable,
            }
            for scenario in analysis.scenarios
        ],
        "worst_power": analysis.worst.power,
        "supported": analysis.supported,
        "tasks_needed": analysis.tasks_needed,
        "repeats_needed": analysis.repeats_needed,
        "monotonicity": {"passed": not analysis.problems, "problems": list(analysis.problems)},
    }


def needed_text(analysis: PowerAnalysis) -> str:
    """Say which counts would reach the target power."""
    options = []
    if analysis.tasks_needed is not None:
        options.append(f"{analysis.tasks_needed} tasks with {analysis.repeats} repeats")
    if analysis.repeats_needed is not None:
        options.append(f"{analysis.repeats_needed} repeats with {analysis.tasks} tasks")
    return (
        " or ".join(options) + " would do"
        if options
        else f"neither {MAX_TASKS} tasks nor {MAX_REPEATS} repeats would do; assume a larger effect"
    )
