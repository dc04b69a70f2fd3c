"""Two methods on the same tasks.

With one attempt per task and side: the 2x2 table, McNemar's test exact and mid-p, Newcombe's interval. With repeats the task
stays the unit: per-task means, a sign-flip test over tasks (which is McNemar's exact test when there is one attempt per
task) and a t interval. McNemar on repeated attempts would count one task several times, so it is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from agentbench.statistics.bootstrap import bootstrap_interval
from agentbench.statistics.intervals import CONFIDENCE, Interval, mean_interval, newcombe_paired
from agentbench.statistics.power import Detectable, detectable_mean, detectable_single
from agentbench.statistics.trials import Rate, Trial

ALPHA = 0.05
FEW_SUMS = 200_000
"""Work up to which the sign-flip test is counted in whole numbers; above, in floating point."""
MOST_SUMS = 400_000_000
"""Work above which it is approximated: about a second of counting."""
SMALLEST_SWEEP = 5
"""Discordant tasks below which not even a clean sweep reaches 0.05 under mid-p."""
SMALLEST_EXACT_SWEEP = 6
"""The same under the exact and the sign-flip test."""


@dataclass(frozen=True, slots=True)
class PairedTask:
    """One task both sides have a counted attempt at."""

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
    """What can be paired, and what cannot."""

    pairs: tuple[PairedTask, ...]
    only_a: tuple[str, ...]
    """Tasks that B did not run."""
    only_b: tuple[str, ...]
    uncounted: tuple[str, ...]
    """Tasks both ran, where a side has no attempt inside the rate (all invalid by our or the task's fault)."""

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
    """Tasks by what each side did with them."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def discordant(self) -> int:
        return self.only_a + self.only_b


class Method(StrEnum):
    """What the decision is made on."""

    TEST = "mcnemar"
    """McNemar's mid-p with one attempt per task, the sign-flip test with repeats."""
    BOOTSTRAP = "bootstrap"
    """Whether the bootstrap interval over tasks leaves 0 out."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A. Probabilities are two-sided; None where the test does not apply, with the reason in `notes`."""

    rate: Rate
    pairing: Pairing
    share_a: float
    share_b: float
    difference: float
    """B minus A, as the mean of per-task differences."""
    interval: Interval | None
    contingency: Contingency | None
    mcnemar_exact: float | None
    mcnemar_mid_p: float | None
    sign_flip: float | None
    notes: tuple[str, ...]
    bootstrap: Interval | None = None
    """Tasks drawn with replacement."""
    by_repository: Interval | None = None
    """Repositories drawn with replacement; None when they are not known, or each task has its own."""
    detectable: Detectable | None = None
    """What this comparison could have shown."""
    method: Method = Method.TEST

    @property
    def p_value(self) -> float | None:
        """The one the decision is made on: mid-p with one attempt per task, the sign-flip test with repeats."""
        return self.mcnemar_mid_p if self.contingency else self.sign_flip

    @property
    def differing(self) -> int:
        """Tasks that the two sides did not do equally well."""
        return sum(bool(one.difference) for one in self.pairing.pairs)

    @property
    def least(self) -> int:
        """Tasks that must differ before even a clean sweep is shown by the test."""
        return SMALLEST_SWEEP if self.contingency else SMALLEST_EXACT_SWEEP

    @property
    def better(self) -> str | None:
        """`A` or `B` when the difference is shown at ALPHA, else None."""
        if self.method is Method.BOOTSTRAP:
            if self.bootstrap is None or self.bootstrap.low <= 0 <= self.bootstrap.high:
                return None
            return "B" if self.bootstrap.low > 0 else "A"
        if self.p_value is None or self.p_value > ALPHA or not self.difference:
            return None
        return "B" if self.difference > 0 else "A"


def pair(a: Sequence[Trial], b: Sequence[Trial], rate: Rate) -> Pairing:
    """Join two sets of trials by task."""
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
    """Compare what was paired; None when there is no pair. `repositories`: where each task comes from, if known."""
    pairs = pairing.pairs
    if not pairs:
        return None
    differences = [one.difference for one in pairs]
    table = contingency(pairs) if pairing.single else None
    flipped = None if table else sign_flip(differences)
    interval = (
        newcombe_paired(table.both, table.only_a, table.only_b, table.neither, confidence)
        if table
        else mean_interval([float(one) for one in differences], confidence)
    )
    return Comparison(
        rate=rate,
        pairing=pairing,
        share_a=float(sum(one.mean_a for one in pairs) / len(pairs)),
        share_b=float(sum(one.mean_b for one in pairs) / len(pairs)),
        difference=float(sum(differences, Fraction(0)) / len(pairs)),
        interval=interval,
        contingency=table,
        mcnemar_exact=mcnemar_exact(table.only_a, table.only_b) if table else None,
        mcnemar_mid_p=mcnemar_mid_p(table.only_a, table.only_b) if table else None,
        sign_flip=flipped.p_value if flipped else None,
        notes=tuple(_notes(pairing, table, interval, flipped)),
        bootstrap=bootstrap_interval([float(one) for one in differences], confidence=confidence),
        by_repository=_by_repository(pairs, repositories, confidence),
        detectable=(
            detectable_single(table.only_a, table.only_b, len(pairs), alpha=ALPHA)
            if table
            else detectable_mean([float(one) for one in differences], alpha=ALPHA)
        ),
        method=method,
    )


def _by_repository(
    pairs: Sequence[PairedTask], repositories: Mapping[str, str] | None, confidence: float
) -> Interval | None:
    if repositories is None or any(one.task not in repositories for one in pairs):
        return None
    sums: dict[str, list[float]] = {}
    for one in pairs:
        sums.setdefault(repositories[one.task], []).append(float(one.difference))
    if len(sums) == len(pairs):
        return None
    return bootstrap_interval(
        [math.fsum(values) for values in sums.values()],
        [float(len(values)) for values in sums.values()],
        by="repository",
        confidence=confidence,
    )


def contingency(pairs: Sequence[PairedTask]) -> Contingency:
    """The 2x2 table of pairs with one attempt per side."""
    cells = [(one.a[0], one.b[0]) for one in pairs]
    return Contingency(
        both=cells.count((1, 1)), only_a=cells.count((1, 0)), only_b=cells.count((0, 1)), neither=cells.count((0, 0))
    )


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Two-sided exact McNemar: the binomial tails of the discordant pairs under a fair coin."""
    total, few = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(total, count) for count in range(few + 1))
    return float(min(Fraction(1), Fraction(2 * tail, 2**total)))


def mcnemar_mid_p(only_a: int, only_b: int) -> float:
    """Two-sided mid-p McNemar: tables as extreme as the observed one count half, more extreme ones whole.

    It keeps its level where the exact test is too careful (Fagerland, Lydersen and Laake 2013). Without any discordant pair
    there is nothing to weigh, and the answer is 1.
    """
    total, few = only_a + only_b, min(only_a, only_b)
    if not total:
        return 1.0
    beyond = sum(math.comb(total, count) for count in range(few))
    mirrored = 1 if 2 * few == total else 2
    return float(Fraction(2 * beyond, 2**total) + Fraction(mirrored * math.comb(total, few), 2 ** (total + 1)))


@dataclass(frozen=True, slots=True)
class SignFlip:
    p_value: float
    exact: bool
    """False: too many different sums to count; the normal approximation, which is good exactly then."""


def sign_flip(differences: Sequence[Fraction]) -> SignFlip:
    """Two-sided randomisation test: how often random signs make the sum at least as extreme as it is.

    Under the null hypothesis each task's difference is as likely as its negative. The distribution of the sum is counted
    exactly, by adding one task after the other to the ways in which every sum can be reached.
    """
    scale = math.lcm(*(one.denominator for one in differences)) if differences else 1
    steps = [abs(int(one * scale)) for one in differences if one]
    observed = abs(int(sum(differences, Fraction(0)) * scale))
    work = len(steps) * sum(steps)
    if FEW_SUMS < work <= MOST_SUMS:
        return SignFlip(_flipped_share(steps, observed), exact=True)
    if work > MOST_SUMS:
        spread = math.sqrt(math.fsum(float(step) ** 2 for step in steps))
        return SignFlip(2 * (1 - NormalDist().cdf(observed / spread)), exact=False)
    counts: Mapping[int, int] = {0: 1}
    for step in steps:
        after: dict[int, int] = {}
        for reached, ways in counts.items():
            after[reached + step] = after.get(reached + step, 0) + ways
            after[reached - step] = after.get(reached - step, 0) + ways
        counts = after
    extreme = sum(ways for reached, ways in counts.items() if abs(reached) >= observed)
    return SignFlip(float(Fraction(extreme, 2 ** len(steps))), exact=True)


def _flipped_share(steps: Sequence[int], observed: int) -> float:
    """The same count as shares: one vector over all sums that can be reached, one addition per task."""
    reach = sum(steps)
    shares = np.zeros(2 * reach + 1)
    shares[reach] = 1.0
    done = 0
    for step in steps:
        done += step
        low, high = reach - done, reach + done + 1
        before = shares[low:high].copy()
        shares[low:high] = 0.0
        shares[low + step : high] += 0.5 * before[: len(before) - step]
        shares[low : high - step] += 0.5 * before[step:]
    sums = np.abs(np.arange(-reach, reach + 1))
    return min(1.0, float(shares[sums >= observed].sum()))


def _by_task(trials: Sequence[Trial], rate: Rate) -> dict[str, tuple[int, ...]]:
    """Counted values per task, in order of repeats; a task without any keeps an empty tuple."""
    tasks: dict[str, list[int]] = {}
    for trial in sorted(trials, key=lambda one: (one.task, one.repeat)):
        values = tasks.setdefault(trial.task, [])
        if (value := trial.value(rate)) is not None:
            values.append(value)
    return {task: tuple(values) for task, values in tasks.items()}


def _shown(table: Contingency | None, flipped: SignFlip | None) -> bool:
    """Whether the test shows a difference."""
    p = mcnemar_mid_p(table.only_a, table.only_b) if table else flipped.p_value if flipped else 1.0
    return p <= ALPHA


def _notes(
    pairing: Pairing, table: Contingency | None, interval: Interval | None, flipped: SignFlip | None
) -> list[str]:
    notes = []
    if table is None:
        notes.append("McNemar's test is for one attempt per task; with repeats, per-task means are compared instead")
    if flipped and not flipped.exact:
        notes.append(
            "the sign-flip test is a normal approximation: the numbers of attempts differ too much to count it out"
        )
    if pairing.unequal:
        notes.append(f"the sides have different numbers of counted attempts at {len(pairing.unequal)} tasks")
    if interval is None:
        notes.append("no interval: the tasks show no spread to measure it by")
    if interval and (interval.low > 0 or interval.high < 0) and not _shown(table, flipped):
        notes.append(
            "the interval leaves 0 out and the test shows no difference: the test decides, it is the more careful"
        )
    if table and mcnemar_mid_p(table.only_a, table.only_b) <= ALPHA < mcnemar_exact(table.only_a, table.only_b):
        notes.append(f"mid-p shows a difference at {ALPHA}; the exact test, which is more careful, does not")
    differing = table.discordant if table else sum(bool(one.difference) for one in pairing.pairs)
    least = SMALLEST_SWEEP if table else SMALLEST_EXACT_SWEEP
    if differing < least:
        notes.append(f"{differing} tasks differ; with fewer than {least} not even a clean sweep reaches {ALPHA}")
    return notes
