"""Paired comparison of two methods on the same tasks.

With one attempt per task and side: the 2x2 table, McNemar's test (exact and mid-p) and Newcombe's interval. With
repeats the task stays the unit: per-task means, a sign-flip test over tasks (which equals McNemar's exact test with one
attempt per task) and a t interval. McNemar's test on repeated attempts would count one task several times, so it is not
computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from agentbench.core.dataclass import dataclass
from agentbench.statistics.bootstrap import bootstrap_interval
from agentbench.statistics.intervals import (
    ALPHA,
    CONFIDENCE,
    Interval,
    clusters_by_repository,
    few_repositories,
    mean_interval,
    newcombe_paired,
)
from agentbench.statistics.power import POWER, Detectable, detectable_mean, detectable_single
from agentbench.statistics.trials import Rate, Trial

MAX_INTEGER_WORK = 200_000
"""Up to this much work the sign-flip test counts in integers; above, in floating point."""
MAX_EXACT_WORK = 400_000_000
"""Above this much work (about a second) the sign-flip test uses a normal approximation."""
MIN_DISCORDANT_MID_P = 5
"""With fewer discordant tasks, mid-p cannot reach 0.05 even if all favour one side."""
MIN_DISCORDANT_EXACT = 6
"""The same limit for the exact and the sign-flip test."""
CURVE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Probabilities of a power curve."""


@dataclass(frozen=True, slots=True)
class PairedTask:
    """One task at which both sides have a counted attempt: the value of each attempt, 0 or 1."""

    task: str
    a: tuple[int, ...]
    b: tuple[int, ...]

    @property
    def mean_a(self) -> Fraction:
        return Fraction(sum(self.a), len(self.a))

    @property
    def mean_b(self) -> Fraction:
        return Fraction(sum(self.b), len(self.b))

    @property
    def difference(self) -> Fraction:
        return self.mean_b - self.mean_a


@dataclass(frozen=True, slots=True)
class Pairing:
    """Tasks that can be paired, and tasks that cannot."""

    pairs: tuple[PairedTask, ...]
    only_a: tuple[str, ...]
    """Tasks that B did not run."""
    only_b: tuple[str, ...]
    uncounted: tuple[str, ...]
    """Tasks both ran, but where all attempts of one side are invalid and outside the rate."""

    @property
    def single(self) -> bool:
        """One counted attempt per task and side."""
        return all(len(pair.a) == len(pair.b) == 1 for pair in self.pairs)

    @property
    def unequal(self) -> tuple[str, ...]:
        """Tasks where the sides have different numbers of counted attempts."""
        return tuple(pair.task for pair in self.pairs if len(pair.a) != len(pair.b))


@dataclass(frozen=True, slots=True)
class Contingency:
    """Number of tasks by which sides passed them."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def discordant(self) -> int:
        return self.only_a + self.only_b


class Method(StrEnum):
    """The method that decides the comparison."""

    TEST = "mcnemar"
    """McNemar's mid-p with one attempt per task, the sign-flip test with repeats."""
    BOOTSTRAP = "bootstrap"
    """Whether the bootstrap interval over tasks excludes 0."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing B with A. P-values are two-sided, and None where a test does not apply (see `notes`)."""

    rate: Rate
    pairing: Pairing
    share_a: float
    share_b: float
    difference: float
    """B - A, the mean of per-task differences."""
    interval: Interval | None
    contingency: Contingency | None
    mcnemar_exact: float | None
    mcnemar_mid_p: float | None
    sign_flip: float | None
    sign_flip_exact: bool = True
    bootstrap: Interval | None = None
    """Interval from resampling tasks."""
    by_repository: Interval | None = None
    """Interval from resampling repositories; None if they are unknown or too few, or each task has its own."""
    repositories: int | None = None
    """Number of repositories that the tasks come from; None if unknown."""
    detectable: Detectable | None = None
    """Minimum detectable effect."""
    method: Method = Method.TEST

    @property
    def p_value(self) -> float | None:
        """The p-value that decides: mid-p with one attempt per task, sign-flip with repeats."""
        return self.mcnemar_mid_p if self.contingency else self.sign_flip

    def power_curve(self) -> list[tuple[float, float]]:
        """Return pairs (true difference, probability that it would be significant), as far as a difference is possible."""
        points = ((_detectable(self.pairing.pairs, self.contingency, power).effect, power) for power in CURVE)
        return [(effect, power) for effect, power in points if effect is not None]

    @property
    def discordant(self) -> int:
        """Number of tasks at which the sides differ."""
        return sum(bool(pair.difference) for pair in self.pairing.pairs)

    @property
    def min_discordant(self) -> int:
        """Number of discordant tasks below which the test cannot be significant."""
        return MIN_DISCORDANT_MID_P if self.contingency else MIN_DISCORDANT_EXACT

    @property
    def better(self) -> str | None:
        """`A` or `B` if the difference is significant at ALPHA, else None."""
        if self.method is Method.BOOTSTRAP:
            if self.bootstrap is None or self.bootstrap.low <= 0 <= self.bootstrap.high:
                return None
            return "B" if self.bootstrap.low > 0 else "A"
        if self.p_value is None or self.p_value > ALPHA or not self.difference:
            return None
        return "B" if self.difference > 0 else "A"

    @property
    def notes(self) -> list[str]:
        """Sentences about the limits of this comparison."""
        notes = []
        if self.contingency is None:
            notes.append("With repeats, per-task means are compared; McNemar's test needs one attempt per task.")
        if not self.sign_flip_exact:
            notes.append("The sign-flip p-value is a normal approximation: there are too many sums to count exactly.")
        if self.pairing.unequal:
            tasks = "1 task" if len(self.pairing.unequal) == 1 else f"{len(self.pairing.unequal)} tasks"
            notes.append(f"A and B have different numbers of counted attempts at {tasks}.")
        p = 1.0 if self.p_value is None else self.p_value
        significant = p <= ALPHA and bool(self.difference)
        if self.interval is None:
            notes.append("No confidence interval: the per-task differences have no variance.")
        elif self.method is Method.TEST:
            notes += disagreement(self.interval, significant=significant)
        if self.method is Method.BOOTSTRAP and significant != (self.better is not None):
            verdict = "is" if significant else "is not"
            notes.append(f"The bootstrap interval decides, as requested; the test {verdict} significant.")
        if self.mcnemar_exact is not None and p <= ALPHA < self.mcnemar_exact:
            notes.append(f"Mid-p is significant at {ALPHA}; the more conservative exact test is not.")
        notes += few_repositories(self.repositories or 0, len(self.pairing.pairs))
        if self.discordant < self.min_discordant:
            differ = "1 task differs" if self.discordant == 1 else f"{self.discordant} tasks differ"
            notes.append(
                f"{differ}; at least {self.min_discordant} must differ for p < {ALPHA}, even if all favour one side."
            )
        return notes


def disagreement(interval: Interval, *, significant: bool) -> list[str]:
    """Return a note if an interval and the test that decides disagree about 0."""
    if significant and interval.low <= 0 <= interval.high:
        return ["The interval includes 0, but the test is significant. The test decides."]
    if not significant and not interval.low <= 0 <= interval.high:
        return [
            "The interval excludes 0, but the test is not significant. The test decides because it is more conservative."
        ]
    return []


def pair(a: Sequence[Trial], b: Sequence[Trial], rate: Rate) -> Pairing:
    """Pair two sets of trials by task."""
    left, right = _by_task(a, rate), _by_task(b, rate)
    common = [task for task in left if task in right]
    counted = [task for task in common if left[task] and right[task]]
    return Pairing(
        pairs=tuple(PairedTask(task, left[task], right[task]) for task in counted),
        only_a=tuple(task for task in left if task not in right),
        only_b=tuple(task for task in right if task not in left),
        uncounted=tuple(task for task in common if task not in counted),
    )


def compare(
    pairing: Pairing,
    rate: Rate,
    confidence: float = CONFIDENCE,
    *,
    method: Method = Method.TEST,
    repositories: Mapping[str, str] | None = None,
) -> Comparison | None:
    """Compare the paired tasks, or return None without any. `repositories` maps tasks to repositories where known."""
    pairs = pairing.pairs
    if not pairs:
        return None
    differences = [pair.difference for pair in pairs]
    table = contingency(pairs) if pairing.single else None
    flipped = None if table else sign_flip(differences)
    interval = (
        newcombe_paired(table.both, table.only_a, table.only_b, table.neither, confidence)
        if table
        else mean_interval(list(map(float, differences)), confidence)
    )
    return Comparison(
        rate=rate,
        pairing=pairing,
        share_a=float(sum(pair.mean_a for pair in pairs) / len(pairs)),
        share_b=float(sum(pair.mean_b for pair in pairs) / len(pairs)),
        difference=float(sum(differences, Fraction(0)) / len(pairs)),
        interval=interval,
        contingency=table,
        mcnemar_exact=mcnemar_exact(table.only_a, table.only_b) if table else None,
        mcnemar_mid_p=mcnemar_mid_p(table.only_a, table.only_b) if table else None,
        sign_flip=flipped.p_value if flipped else None,
        sign_flip_exact=flipped is None or flipped.exact,
        bootstrap=bootstrap_interval(list(map(float, differences)), confidence=confidence),
        by_repository=_by_repository(pairs, repositories, confidence),
        repositories=len(_clusters(pairs, repositories)) or None,
        detectable=_detectable(pairs, table, POWER),
        method=method,
    )


def _detectable(pairs: Sequence[PairedTask], table: Contingency | None, power: float) -> Detectable:
    if table:
        return detectable_single(table.only_a, table.only_b, len(pairs), power=power)
    return detectable_mean([float(pair.difference) for pair in pairs], power=power)


def _by_repository(
    pairs: Sequence[PairedTask], repositories: Mapping[str, str] | None, confidence: float
) -> Interval | None:
    differences = _clusters(pairs, repositories)
    if not clusters_by_repository(len(differences), len(pairs)):
        return None
    return bootstrap_interval(
        [math.fsum(values) for values in differences.values()],
        [float(len(values)) for values in differences.values()],
        by="repository",
        confidence=confidence,
    )


def _clusters(pairs: Sequence[PairedTask], repositories: Mapping[str, str] | None) -> dict[str, list[float]]:
    """Return the differences of each repository; empty if the repository of a task is unknown."""
    if repositories is None or any(pair.task not in repositories for pair in pairs):
        return {}
    differences: dict[str, list[float]] = {}
    for pair in pairs:
        differences.setdefault(repositories[pair.task], []).append(float(pair.difference))
    return differences


def contingency(pairs: Sequence[PairedTask]) -> Contingency:
    """Count the 2x2 table of pairs with one attempt per side."""
    cells = [(pair.a[0], pair.b[0]) for pair in pairs]
    return Contingency(
        both=cells.count((1, 1)), only_a=cells.count((1, 0)), only_b=cells.count((0, 1)), neither=cells.count((0, 0))
    )


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact McNemar test: binomial tails of the discordant pairs at probability 1/2."""
    total, smaller = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(total, count) for count in range(smaller + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**total)))


def mcnemar_mid_p(only_a: int, only_b: int) -> float:
    """Two-sided mid-p McNemar test: tables as extreme as the observed one count half, more extreme ones count fully.

    It keeps its level where the exact test is too conservative (Fagerland, Lydersen and Laake 2013). Returns 1 without
    discordant pairs.
    """
    total, smaller = only_a + only_b, min(only_a, only_b)
    if not total:
        return 1.0
    more_extreme = sum(math.comb(total, count) for count in range(smaller))
    mirrored = 1 if 2 * smaller == total else 2
    as_extreme = Fraction(mirrored * math.comb(total, smaller), 2 ** (total + 1))
    return float(Fraction(2 * more_extreme, 2**total) + as_extreme)


@dataclass(frozen=True, slots=True)
class SignFlip:
    p_value: float
    exact: bool
    """False if there are too many sums to count; then it is a normal approximation, which is accurate in that case."""


def sign_flip(differences: Sequence[Fraction]) -> SignFlip:
    """Two-sided randomisation test: how often random signs make the sum at least as extreme as observed.

    Under the null hypothesis each task's difference is as likely as its negative. The distribution of the sum is
    counted exactly, by adding one task at a time to the number of ways in which each sum can be reached.
    """
    scale = math.lcm(*(difference.denominator for difference in differences)) if differences else 1
    steps = [abs(int(difference * scale)) for difference in differences if difference]
    observed = abs(int(sum(differences, Fraction(0)) * scale))
    work = len(steps) * sum(steps)
    if MAX_INTEGER_WORK < work <= MAX_EXACT_WORK:
        return SignFlip(_flipped_share(steps, observed), exact=True)
    if work > MAX_EXACT_WORK:
        deviation = math.sqrt(math.fsum(float(step) ** 2 for step in steps))
        return SignFlip(2 * (1 - NormalDist().cdf(observed / deviation)), exact=False)
    counts: Mapping[int, int] = {0: 1}
    for step in steps:
        after: dict[int, int] = {}
        for total, ways in counts.items():
            after[total + step] = after.get(total + step, 0) + ways
            after[total - step] = after.get(total - step, 0) + ways
        counts = after
    extreme = sum(ways for total, ways in counts.items() if abs(total) >= observed)
    return SignFlip(float(Fraction(extreme, 2 ** len(steps))), exact=True)


def _flipped_share(steps: Sequence[int], observed: int) -> float:
    """Return the same p-value from a vector of probabilities over all possible sums, one addition per task."""
    largest = sum(steps)
    shares = np.zeros(2 * largest + 1)
    shares[largest] = 1.0
    reached = 0
    for step in steps:
        reached += step
        low, high = largest - reached, largest + reached + 1
        before = shares[low:high].copy()
        shares[low:high] = 0.0
        shares[low + step : high] += 0.5 * before[: len(before) - step]
        shares[low : high - step] += 0.5 * before[step:]
    sums = np.abs(np.arange(-largest, largest + 1))
    return min(1.0, float(shares[sums >= observed].sum()))


def _by_task(trials: Sequence[Trial], rate: Rate) -> dict[str, tuple[int, ...]]:
    """Return counted values per task in order of repeats; a task without any has an empty tuple."""
    tasks: dict[str, list[int]] = {}
    for trial in sorted(trials, key=lambda trial: (trial.task, trial.repeat)):
        values = tasks.setdefault(trial.task, [])
        if (value := trial.value(rate)) is not None:
            values.append(value)
    return {task: tuple(values) for task, values in tasks.items()}
