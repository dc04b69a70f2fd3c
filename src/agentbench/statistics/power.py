"""Minimum detectable effect of a finished comparison, and simulated power of a planned one.

Tasks differ in difficulty, so repeats of one task are correlated. The simulation uses the simplest model with
correlation ρ within tasks: with probability ρ a task is deterministic (all its repeats have the same outcome, and both
methods face the same difficulty), otherwise its repeats are independent. Two repeats of a task then correlate by
exactly ρ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from agentbench.core.dataclass import dataclass
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.distributions import t_quantile
from agentbench.statistics.intervals import ALPHA
from agentbench.statistics.simulated_tests import mid_p_significant, sign_flip_significant

POWER = 0.8
SIMULATIONS = 2_000
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Detectable:
    """Minimum detectable effect: the smallest true difference that is significant with probability `power`."""

    effect: float | None
    """None when even the largest possible difference would not be detected that reliably."""
    power: float
    alpha: float
    tasks: int
    differing: float | None = None
    """The share of differing tasks that it assumes; None if it follows from the spread of per-task differences."""

    def reaches(self, difference: float) -> bool:
        """Whether a true difference of this size would be detected with probability `power`."""
        return self.effect is not None and abs(difference) >= self.effect


def detectable_single(
    only_a: int, only_b: int, tasks: int, *, alpha: float = ALPHA, power: float = POWER
) -> Detectable:
    """Compute the effect for one attempt per task and side from the share ψ of discordant tasks.

    Solves Miettinen's power equation of McNemar's test, z(1-α/2)·√ψ + z(power)·√(ψ - δ²) = δ·√n, for δ ≤ ψ. The
    estimate of ψ adds one discordant and one concordant task, so that ψ is never exactly 0 or 1.
    """
    if tasks < 1:
        return Detectable(None, power, alpha, tasks)
    psi = (only_a + only_b + 1) / (tasks + 2)
    za, zb = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)

    def excess(effect: float) -> float:
        return effect * math.sqrt(tasks) - za * math.sqrt(psi) - zb * math.sqrt(max(0.0, psi - effect * effect))

    # The difference δ cannot exceed the share ψ of discordant tasks.
    if excess(psi) < 0:
        return Detectable(None, power, alpha, tasks, psi)
    low, high = 0.0, psi
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return Detectable(high, power, alpha, tasks, psi)


def detectable_mean(differences: Sequence[float], *, alpha: float = ALPHA, power: float = POWER) -> Detectable:
    """Compute the effect for repeats from per-task differences: (t(1-α/2) + t(power))·s/√n; None if s is 0."""
    count = len(differences)
    deviation = float(np.std(np.asarray(differences), ddof=1)) if count > 1 else 0.0
    if not deviation:
        return Detectable(None, power, alpha, count)
    below = math.copysign(t_quantile(abs(2 * power - 1), count - 1), 2 * power - 1)
    quantiles = t_quantile(1 - alpha, count - 1) + below
    effect = quantiles * deviation / math.sqrt(count)
    return Detectable(effect if effect <= 1 else None, power, alpha, count)


@dataclass(frozen=True, slots=True)
class Design:
    """A planned paired comparison."""

    tasks: int
    repeats: int
    rate_a: float
    rate_b: float
    correlation: float
    """Correlation ρ between repeats of one task, from 0 to 1."""

    def __post_init__(self) -> None:
        if self.tasks < 2 or self.repeats < 1:
            raise ValueError(f"expected at least 2 tasks and 1 repeat, got {self.tasks} and {self.repeats}")
        if not all(0 <= share <= 1 for share in (self.rate_a, self.rate_b, self.correlation)):
            raise ValueError("rates and correlation must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class Power:
    design: Design
    power: float
    """Share of simulated comparisons with a significant difference."""
    error: float
    """Standard error of that share."""
    simulations: int


def simulate_power(
    design: Design,
    *,
    alpha: float = ALPHA,
    simulations: int = SIMULATIONS,
    seed: int = PROTOCOL_SEED,
) -> Power:
    """Estimate how often a comparison of this design is significant, with the test that decides in the report.

    That is McNemar's mid-p with one attempt per task, and the sign-flip test over tasks with repeats.
    """
    rng = np.random.default_rng(seed)
    shape = (simulations, design.tasks)
    deterministic = rng.random(shape) < design.correlation
    difficulty = rng.random(shape)
    passed = []
    for rate in (design.rate_a, design.rate_b):
        independent = rng.binomial(design.repeats, rate, size=shape)
        passed.append(np.where(deterministic, (difficulty < rate) * design.repeats, independent))
    steps = passed[1] - passed[0]
    if design.repeats == 1:
        significant = mid_p_significant((steps < 0).sum(axis=1), (steps > 0).sum(axis=1), alpha)
    else:
        significant = sign_flip_significant(steps, design.repeats, alpha)
    share = float(significant.mean())
    return Power(design, share, math.sqrt(max(share * (1 - share), 1 / simulations) / simulations), simulations)


def deciding_test(repeats: int) -> str:
    """Name the test that decides a comparison of this design."""
    return "McNemar's mid-p test" if repeats == 1 else "the sign-flip test over tasks"


def required_discordant(repeats: int, alpha: float = ALPHA) -> int:
    """Return how many tasks must differ, all in favour of one side, before the deciding test can be significant.

    With d of them the sign-flip test, which decides with repeats, has p = 2/2^d; McNemar's mid-p without has half of it.
    """
    return math.ceil(math.log2((2 if repeats > 1 else 1) / alpha))


def sanity(base: Design, *, simulations: int = SIMULATIONS, seed: int = PROTOCOL_SEED) -> tuple[str, ...]:
    """Check that more tasks, more repeats or a larger effect do not lower the power. Returns the violations.

    Repeats start at 2 here: with one attempt per task another test decides, which is less conservative.
    """
    larger = min(1.0, max(0.0, base.rate_b + (base.rate_b - base.rate_a)))
    chains = {
        "tasks": [replace(base, tasks=base.tasks * factor) for factor in (1, 2, 4)],
        "repeats": [replace(base, repeats=max(2, base.repeats) * factor) for factor in (1, 2, 4)],
        "effect": [replace(base, rate_b=base.rate_a), base, replace(base, rate_b=larger)],
    }
    problems = []
    for name, designs in chains.items():
        powers = [simulate_power(design, simulations=simulations, seed=seed) for design in designs]
        for before, after in itertools.pairwise(powers):
            if after.power < before.power - 4 * math.hypot(before.error, after.error):
                problems.append(f"power drops from {before.power:.3f} to {after.power:.3f} with more {name}")
    return tuple(problems)
