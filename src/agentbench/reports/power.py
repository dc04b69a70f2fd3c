"""Simulated power of a planned paired comparison and of larger designs, with a sanity check of the simulation."""

from __future__ import annotations

from dataclasses import replace

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.reports.escape import columns
from agentbench.reports.number_format import percent, plural
from agentbench.statistics.intervals import ALPHA
from agentbench.statistics.power import POWER, Design, Power, deciding_test, sanity, simulate_power

MAX_SIMULATED_TASKS = 40_000_000
"""Simulated task means per design; larger designs get fewer simulations."""


@dataclass(frozen=True, slots=True)
class PowerReport:
    power: Power
    larger: tuple[Power, ...]
    """The same design with more tasks."""
    problems: tuple[str, ...]
    """Violations found by the sanity check."""
    seed: int


def estimate_power(design: Design, seed: int = PROTOCOL_SEED) -> PowerReport:
    """Simulate a design and larger ones, and run the sanity check."""
    simulations = max(200, min(2000, MAX_SIMULATED_TASKS // (4 * design.tasks)))
    larger = [replace(design, tasks=design.tasks * factor) for factor in (2, 4)]
    return PowerReport(
        power=simulate_power(design, simulations=simulations, seed=seed),
        larger=tuple(simulate_power(design, simulations=simulations, seed=seed) for design in larger),
        problems=sanity(design, simulations=simulations, seed=seed),
        seed=seed,
    )


def as_text(report: PowerReport) -> str:
    design = report.power.design
    word = "SUFFICIENT" if report.power.power >= POWER else "UNDERPOWERED"
    attempts = plural(design.repeats, "attempt")
    effect = f"{percent(design.rate_a)} vs. {percent(design.rate_b)}"
    size = f"{design.tasks} tasks and {attempts} per task"
    power = percent(report.power.power)
    lines = [f"{word}: {power} power to detect {effect} with {size} (target {percent(POWER)})", ""]
    rows = [("tasks", "power")] + [
        (str(power.design.tasks), f"{percent(power.power)} ± {power.error * 100:.1f}")
        for power in (report.power, *report.larger)
    ]
    lines += columns(rows)
    lines += [
        "",
        f"Simulated with an assumed correlation within tasks, and with the test that decides: {deciding_test(design.repeats)}, at {ALPHA}.",
    ]
    lines += [f"SANITY CHECK FAILED: {problem}" for problem in report.problems] or [
        "Sanity check passed: power does not drop with more tasks, more repeats or a larger effect."
        if design.repeats > 1
        else "Sanity check passed: power does not drop with more tasks or a larger effect. From 2 attempts per task on, "
        f"{deciding_test(2)} decides; it is more conservative, so power can be lower."
    ]
    return "\n".join(lines) + "\n"


def as_json(report: PowerReport) -> dict[str, Json]:
    design = report.power.design
    return {
        "tasks": design.tasks,
        "repeats": design.repeats,
        "rate_a": design.rate_a,
        "rate_b": design.rate_b,
        "correlation": design.correlation,
        "power": report.power.power,
        "standard_error": report.power.error,
        "test": deciding_test(design.repeats),
        "simulations": report.power.simulations,
        "seed": report.seed,
        "larger": [{"tasks": power.design.tasks, "power": power.power} for power in report.larger],
        "problems": list(report.problems),
    }
