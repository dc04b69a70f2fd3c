"""What a planned comparison could show: its power by simulation, beside smaller and larger plans, and whether that is sane."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentbench.core.canonical import Json
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.reports.escape import columns
from agentbench.reports.figures import percent
from agentbench.statistics.power import POWER, Design, Power, sanity, simulate_power

MOST_CELLS = 40_000_000
"""Simulated task means of one design: larger designs get fewer simulations."""


@dataclass(frozen=True, slots=True)
class Plan:
    power: Power
    larger: tuple[Power, ...]
    """The same with more tasks."""
    problems: tuple[str, ...]
    seed: int


def plan(design: Design, seed: int = PROTOCOL_SEED) -> Plan:
    """Simulate a design, some larger ones, and the sanity check."""
    simulations = max(200, min(2000, MOST_CELLS // (4 * design.tasks)))
    bigger = [replace(design, tasks=design.tasks * factor) for factor in (2, 4)]
    return Plan(
        power=simulate_power(design, simulations=simulations, seed=seed),
        larger=tuple(simulate_power(one, simulations=simulations, seed=seed) for one in bigger),
        problems=sanity(design, simulations=simulations, seed=seed),
        seed=seed,
    )


def as_text(found: Plan) -> str:
    design, enough = found.power.design, found.power.power >= POWER
    word = "ENOUGH" if enough else "NOT ENOUGH"
    shown = f"power {percent(found.power.power)} to show {percent(design.rate_a)} against {percent(design.rate_b)}"
    lines = [
        f"{word}: {shown} with {design.tasks} tasks and {design.repeats} attempts each (wanted: {percent(POWER)})",
        "",
    ]
    rows = [("tasks", "power")] + [
        (str(one.design.tasks), f"{percent(one.power)} ± {one.error * 100:.1f}") for one in (found.power, *found.larger)
    ]
    lines += columns(rows)
    lines += [
        "",
        "a model, not a measurement: correlation within tasks assumed, Student's t over per-task differences at 0.05",
    ]
    lines += [f"NOT SANE: {one}" for one in found.problems] or [
        "sane: power never falls with more tasks, more repeats or a larger effect"
    ]
    return "\n".join(lines) + "\n"


def as_json(found: Plan) -> dict[str, Json]:
    design = found.power.design
    return {
        "tasks": design.tasks,
        "repeats": design.repeats,
        "rate_a": design.rate_a,
        "rate_b": design.rate_b,
        "correlation": design.correlation,
        "power": found.power.power,
        "standard_error": found.power.error,
        "simulations": found.power.simulations,
        "seed": found.seed,
        "larger": [{"tasks": one.design.tasks, "power": one.power} for one in found.larger],
        "problems": list(found.problems),
    }
