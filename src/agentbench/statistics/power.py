"""What a comparison could show: the minimum detectable effect of one that was made, power by simulation of one that is planned.

Tasks differ in difficulty, so repeats of one task are correlated. The simulation takes the simplest model with a given
correlation ρ within tasks (P5.3): a task is settled with probability ρ (every repeat ends alike, and both methods meet
the same difficulty), else its repeats are independent. Then two repeats of a task correlate by exactly ρ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.distributions import t_quantile

ALPHA = 0.05
POWER = 0.8
SIMULATIONS = 2_000
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest true difference that would be shown with probability `power`; None: not even the largest possible."""

    effect: float | None
    power: float
    alpha: float
    tasks: int

    def reaches(self, difference: float) -> bool:
        """Whether a true difference of this size could be relied on to show."""
        return self.effect is not None and abs(difference) >= self.effect


def detectable_single(
    only_a: int, only_b: int, tasks: int, *, alpha: float = ALPHA, power: float = POWER
) -> Detectable:
    """For one attempt per task and side, from the share ψ of tasks that differ.

    Solves Miettinen's power equation of McNemar's test, z(1-α/2)·√ψ + z(power)·√(ψ - δ²) = δ·√n, for δ ≤ ψ. ψ is
    estimated with one imaginary differing and one agreeing task added, so that no differing task does not claim certainty.
    """
    if tasks < 1:
        return Detectable(None, power, alpha, tasks)
    psi = (only_a + only_b + 1) / (tasks + 2)
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)

    def excess(effect: float) -> float:
        return effect * math.sqrt(tasks) - za * math.sqrt(psi) - zb * math.sqrt(max(0.0, psi - effect * effect))

    # δ ≤ ψ: the difference cannot exceed the share of tasks that differ.
    if excess(psi) < 0:
        return Detectable(None, power, alpha, tasks)
    low, high = 0.0, psi
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return Detectable(high, power, alpha, tasks)


def detectable_mean(differences: Sequence[float], *, alpha: float = ALPHA, power: float = POWER) -> Detectable:
    """For repeats, from the spread of per-task differences: (t(1-α/2) + t(power))·s/√n; None above 1 or without spread."""
    count = len(differences)
    spread = float(np.std(np.asarray(differences), ddof=1)) if count > 1 else 0.0
    if not spread:
        return Detectable(None, power, alpha, count)
    reach = t_quantile(1 - alpha, count - 1) + t_quantile(2 * power - 1, count - 1)
    effect = reach * spread / math.sqrt(count)
    return Detectable(effect if effect <= 1 else None, power, alpha, count)


@dataclass(frozen=True, slots=True)
class Design:
    """A planned paired comparison."""

    tasks: int
    repeats: int
    rate_a: float
    rate_b: float
    correlation: float
    """ρ between repeats of one task, 0..1."""

    def __post_init__(self) -> None:
        if self.tasks < 2 or self.repeats < 1:
            msg = f"a design needs at least 2 tasks and 1 repeat, not {self.tasks} and {self.repeats}"
            raise ValueError(msg)
        if not all(0 <= one <= 1 for one in (self.rate_a, self.rate_b, self.correlation)):
            msg = "rates and the correlation within tasks lie between 0 and 1"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Power:
    design: Design
    power: float
    """Share of simulated studies that showed the difference."""
    error: float
    """Standard error of that share, from the number of simulations."""
    simulations: int


def simulate_power(
    design: Design, *, alpha: float = ALPHA, simulations: int = SIMULATIONS, seed: int = PROTOCOL_SEED
) -> Power:
    """How often a study of this design shows its difference, by Student's t over per-task differences."""
    rng = np.random.default_rng(seed)
    shape = (simulations, design.tasks)
    settled = rng.random(shape) < design.correlation
    difficulty = rng.random(shape)
    means = []
    for rate in (design.rate_a, design.rate_b):
        free = rng.binomial(design.repeats, rate, size=shape) / design.repeats
        means.append(np.where(settled, (difficulty < rate).astype(np.float64), free))
    differences = means[1] - means[0]
    centre = differences.mean(axis=1)
    error = differences.std(axis=1, ddof=1) / math.sqrt(design.tasks)
    critical = t_quantile(1 - alpha, design.tasks - 1)
    # Without any spread a study shows a difference only if every task has the same one.
    shown = np.where(error > 0, np.abs(centre) > critical * error, np.abs(centre) > 0)
    share = float(shown.mean())
    return Power(design, share, math.sqrt(max(share * (1 - share), 1 / simulations) / simulations), simulations)


def sanity(base: Design, *, simulations: int = SIMULATIONS, seed: int = PROTOCOL_SEED) -> tuple[str, ...]:
    """Whether power behaves: more tasks, more repeats or a larger effect may not lower it. What does not, in words."""
    larger = min(1.0, max(0.0, base.rate_b + (base.rate_b - base.rate_a)))
    chains = {
        "tasks": [_with(base, tasks=base.tasks * factor) for factor in (1, 2, 4)],
        "repeats": [_with(base, repeats=base.repeats * factor) for factor in (1, 2, 4)],
        "effect": [_with(base, rate_b=base.rate_a), base, _with(base, rate_b=larger)],
    }
    problems = []
    for name, designs in chains.items():
        found = [simulate_power(one, simulations=simulations, seed=seed) for one in designs]
        for before, after in itertools.pairwise(found):
            if after.power < before.power - 4 * math.hypot(before.error, after.error):
                problems.append(f"power falls from {before.power:.3f} to {after.power:.3f} with more {name}")
    return tuple(problems)


def _with(
    design: Design, *, tasks: int | None = None, repeats: int | None = None, rate_b: float | None = None
) -> Design:
    return Design(
        tasks=design.tasks if tasks is None else tasks,
        repeats=design.repeats if repeats is None else repeats,
        rate_a=design.rate_a,
        rate_b=design.rate_b if rate_b is None else rate_b,
        correlation=design.correlation,
    )
