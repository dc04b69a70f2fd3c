"""Operating characteristics of a stopping rule by simulation: error rate, power, expected number of attempts.

Decides many simulated studies at once, with the same result as `decide` for each of them (a test compares the two).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentbench.core.dataclass import dataclass
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.statistics.distributions import t_quantile
from agentbench.statistics.intervals import newcombe_paired
from agentbench.statistics.power import SIMULATIONS, Design
from agentbench.statistics.sequential.boundaries import nominal_level, spending_bounds
from agentbench.statistics.sequential.confidence_sequence import log_e_values
from agentbench.statistics.sequential.decide import conditional_power, least_variance
from agentbench.statistics.sequential.rules import (
    Anytime,
    GroupSequential,
    PlannedBlocks,
    Rule,
    SequentialOutcome,
    look_schedule,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

OUTCOMES = (
    SequentialOutcome.CONTINUE,
    SequentialOutcome.A_BETTER,
    SequentialOutcome.B_BETTER,
    SequentialOutcome.EQUIVALENT,
    SequentialOutcome.FUTILE,
    SequentialOutcome.INCONCLUSIVE,
)
"""Codes of outcomes in arrays."""
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Studies:
    """Simulated outcomes of both methods, 1 passed and 0 not. Axes: study, task, repeat."""

    a: Integers
    b: Integers

    @property
    def planned(self) -> PlannedBlocks:
        return PlannedBlocks(*self.a.shape[1:])

    def __len__(self) -> int:
        return len(self.a)

    def select(self, studies: Integers) -> Studies:
        return Studies(self.a[studies], self.b[studies])


@dataclass(frozen=True, slots=True)
class Characteristics:
    """The share of each outcome of a rule, and the mean number of attempts that it needs."""

    shares: dict[SequentialOutcome, float]
    attempts: float
    """Expected attempts of both methods together."""
    planned_attempts: int
    simulations: int

    @property
    def decided(self) -> float:
        """Share of studies that decide for one method: the type I error if the methods are equal, else the power."""
        return self.shares[SequentialOutcome.A_BETTER] + self.shares[SequentialOutcome.B_BETTER]

    @property
    def error(self) -> float:
        """Monte-Carlo standard error of `decided`."""
        return math.sqrt(max(self.decided * (1 - self.decided), 1 / self.simulations) / self.simulations)


def simulate_rule(
    rule: Rule, design: Design, *, simulations: int = SIMULATIONS, seed: int = PROTOCOL_SEED
) -> Characteristics:
    """Simulate studies of a design, with the model of `power`: a task is deterministic with probability ρ."""
    return characteristics(rule, simulate_studies(design, simulations, seed), seed=seed)


def simulate_studies(design: Design, simulations: int, seed: int = PROTOCOL_SEED) -> Studies:
    """Draw the outcome of every attempt with the model of `power`."""
    rng = np.random.default_rng(seed)
    deterministic = rng.random((simulations, design.tasks, 1)) < design.correlation
    difficulty = rng.random((simulations, design.tasks, 1))
    sides = []
    for rate in (design.rate_a, design.rate_b):
        independent = rng.random((simulations, design.tasks, design.repeats)) < rate
        sides.append(np.where(deterministic, difficulty < rate, independent).astype(np.int64))
    return Studies(*sides)


def characteristics(rule: Rule, studies: Studies, *, seed: int = PROTOCOL_SEED) -> Characteristics:
    """Summarise the decisions of a rule over simulated studies."""
    outcomes, looks = decide_studies(rule, studies, seed=seed)
    blocks = np.array(look_schedule(rule, studies.planned))[looks - 1]
    shares = {outcome: float((outcomes == code).mean()) for code, outcome in enumerate(OUTCOMES)}
    return Characteristics(shares, 2 * float(blocks.mean()), studies.planned.attempts, len(studies))


def block_order(planned: PlannedBlocks, seed: int = PROTOCOL_SEED) -> list[tuple[int, int]]:
    """Return (task, repeat) of every block: repeat by repeat, each in an order of its own, as in a plan."""
    rng = np.random.default_rng(seed)
    return [(int(task), repeat) for repeat in range(1, planned.repeats + 1) for task in rng.permutation(planned.tasks)]


def decide_studies(rule: Rule, studies: Studies, *, seed: int = PROTOCOL_SEED) -> tuple[Integers, Integers]:
    """Return the outcome (a code of OUTCOMES) and the look at which each study stops."""
    planned = studies.planned
    outcomes, looks = np.zeros(len(studies), dtype=np.int64), np.zeros(len(studies), dtype=np.int64)
    order = block_order(planned, seed)
    last = OUTCOMES.index(SequentialOutcome.INCONCLUSIVE)
    for start in range(0, len(studies), _BATCH):
        undecided = np.arange(start, min(start + _BATCH, len(studies)))
        for look, blocks in enumerate(look_schedule(rule, planned), start=1):
            complete = np.bincount([task for task, _ in order[:blocks]], minlength=planned.tasks)
            flags = _look_flags(rule, studies.select(undecided), complete, look)
            codes = np.select(flags, [1, 2, 3, 4], default=last if look == rule.looks else 0)
            outcomes[undecided], looks[undecided] = codes, look
            undecided = undecided[codes == 0]
            if not undecided.size:
                break
    return outcomes, looks


def _look_flags(rule: Rule, studies: Studies, complete: Integers, look: int) -> list[Flags]:
    """Return which studies decide for A, for B, for equivalence and for futility; the first that is set counts.

    `complete` has the number of complete blocks of each task.
    """
    if isinstance(rule, Anytime):
        return _anytime_flags(rule, studies, complete)
    return _group_sequential_flags(rule, studies, complete, look)


# --- group sequential -------------------------------------------------------------------------------------------------


def _group_sequential_flags(rule: GroupSequential, studies: Studies, complete: Integers, look: int) -> list[Flags]:
    planned = studies.planned
    fractions = tuple(count / planned.blocks for count in look_schedule(rule, planned))
    bounds = spending_bounds(rule.spending, fractions, rule.alpha)
    level = nominal_level(bounds[look - 1])
    seen = complete[complete > 0]
    sums = [_sums(side, complete) for side in (studies.a, studies.b)]
    scale = math.lcm(*set(seen.tolist()))
    steps = (sums[1] - sums[0]) * (scale // seen)
    p_values, total = sign_flip_p_values(steps), steps.sum(axis=1)
    significant = p_values <= level
    nowhere = np.zeros(len(studies), dtype=np.bool_)
    equivalent = futile = nowhere
    if rule.margin is not None and level > 0:
        inside = _singles_inside if (seen == 1).all() else _means_inside
        equivalent = inside(sums[0] / seen, sums[1] / seen, rule.margin, 1 - level)
    if rule.futility is not None and look < rule.looks and len(seen) > 1:
        least = least_variance(rule.futility.effect, planned.repeats)
        errors = np.maximum((steps / scale).var(axis=1, ddof=1), least) / len(seen)
        powers = [
            conditional_power(rule.futility.effect, error, p, fractions[look - 1], bounds[-1])
            for error, p in zip(errors.tolist(), p_values.tolist(), strict=True)
        ]
        futile = np.array(powers) < rule.futility.conditional_power
    return [significant & (total < 0), significant & (total > 0), equivalent, futile]


def _sums(side: Integers, complete: Integers) -> Integers:
    """Return the passes of every task that was attempted, over the blocks that it made."""
    counted = np.arange(side.shape[2])[None, :] < complete[:, None]
    return np.asarray((side * counted).sum(axis=2)[:, complete > 0])


def sign_flip_p_values(steps: Integers) -> Floats:
    """Return the sign-flip p-value of every row of integer differences, as `paired.sign_flip` does for one.

    The distribution of the sum with random signs has the characteristic function Π cos(ω·step). Inverting it on as many
    points as the sum has values is exact up to rounding.
    """
    sizes, observed = np.abs(steps), np.abs(steps.sum(axis=1))
    largest = int(sizes.sum(axis=1).max(initial=0))
    points = 2 * largest + 1
    angles = 2 * np.pi * np.arange(1, largest + 1) / points
    transform = np.ones((len(steps), largest))
    for size in range(1, int(sizes.max(initial=0)) + 1):
        counts = (sizes == size).sum(axis=1)
        transform *= np.cos(angles * size)[None, :] ** counts[:, None]
    # Σ cos(ω·x) over |x| < observed is the Dirichlet kernel; ω and 2π - ω contribute the same.
    kernel = np.sin(angles[None, :] * (observed[:, None] - 0.5)) / np.sin(angles / 2)[None, :]
    below = (2 * observed - 1 + 2 * (transform * kernel).sum(axis=1)) / points
    return np.where(observed == 0, 1.0, np.clip(1 - below, 0.0, 1.0))


def _singles_inside(means_a: Floats, means_b: Floats, margin: float, confidence: float) -> Flags:
    """Return where Newcombe's interval lies inside the margin, with one attempt per task."""
    cells = (
        means_a * means_b,
        means_a * (1 - means_b),
        (1 - means_a) * means_b,
        (1 - means_a) * (1 - means_b),
    )
    tables, index = np.unique(np.stack([cell.sum(axis=1) for cell in cells], axis=1), axis=0, return_inverse=True)
    inside = [_newcombe_inside(table, margin, confidence) for table in tables.tolist()]
    return np.array(inside)[index.ravel()]


def _means_inside(means_a: Floats, means_b: Floats, margin: float, confidence: float) -> Flags:
    """Return where the adjusted Student's interval over tasks lies inside the margin, with repeats."""
    favours_a = np.full((len(means_a), 1), -1.0)
    differences = np.concatenate([means_b - means_a, favours_a, -favours_a], axis=1)
    tasks = differences.shape[1]
    half = t_quantile(confidence, tasks - 1) * differences.std(axis=1, ddof=1) / math.sqrt(tasks)
    centre = differences.mean(axis=1)
    return np.asarray((centre - half > -margin) & (centre + half < margin))


def _newcombe_inside(table: Sequence[float], margin: float, confidence: float) -> bool:
    both, only_a, only_b, neither = map(round, table)
    interval = newcombe_paired(both, only_a, only_b, neither, confidence)
    return interval is not None and interval.low > -margin and interval.high < margin


# --- anytime ----------------------------------------------------------------------------------------------------------


def _anytime_flags(rule: Anytime, studies: Studies, complete: Integers) -> list[Flags]:
    repeats = studies.planned.repeats
    threshold = math.log(2 * repeats / rule.alpha)
    e_b, e_a = np.zeros(len(studies)), np.zeros(len(studies))
    above, below = np.zeros(len(studies), dtype=np.bool_), np.zeros(len(studies), dtype=np.bool_)
    for count in range(1, int(complete.max()) + 1):
        selected = complete >= count
        sums = (studies.b - studies.a)[:, selected, :count].sum(axis=2)
        distinct = np.arange(-count, count + 1)
        counts = (sums[:, :, None] == distinct).sum(axis=1)
        values = distinct / count
        e_b = np.maximum(e_b, log_e_values(values, counts))
        e_a = np.maximum(e_a, log_e_values(-values, counts))
        if rule.margin is not None:
            above |= log_e_values(values, counts, -rule.margin) >= threshold
            below |= log_e_values(-values, counts, -rule.margin) >= threshold
    decided = np.maximum(e_a, e_b) >= threshold
    return [decided & (e_a >= e_b), decided & (e_b > e_a), above & below, np.zeros(len(studies), dtype=np.bool_)]
