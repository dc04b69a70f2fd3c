"""Intervals for rates and for paired differences. Every one is a published method, named where it is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.statistics.distributions import normal_quantile, t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    confidence: float
    method: str


def wilson(successes: float, total: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval for a proportion (Wilson 1927). `total` may be an effective sample size.

    Raises:
        ValueError: nothing was counted, or more successes than trials.
    """
    if total <= 0 or not 0 <= successes <= total:
        msg = f"no proportion: {successes} of {total}"
        raise ValueError(msg)
    z = normal_quantile(confidence)
    share, square = successes / total, z * z
    centre = (share + square / (2 * total)) / (1 + square / total)
    half = z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return low, high


def clustered_wilson(clusters: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's interval for attempts that come in clusters: (successes, trials) per task.

    With one trial per task it is Wilson's own. With repeats, attempts at one task are not independent: the sample size is
    replaced by the effective one, from the variance between tasks (the ratio estimator of survey sampling). Without any spread
    between tasks the number of tasks is used, which is the smallest it could honestly be.
    """
    counted = [(good, total) for good, total in clusters if total]
    successes, trials = sum(good for good, _ in counted), sum(total for _, total in counted)
    if not trials:
        return None
    if trials == len(counted):
        return Interval(*wilson(successes, trials, confidence), confidence, "Wilson")
    share, tasks = successes / trials, len(counted)
    spread = sum((good - share * total) ** 2 for good, total in counted)
    effective = float(tasks)
    if spread > 0 and tasks > 1:
        variance = tasks / (tasks - 1) * spread / trials**2
        # A spread that few tasks show is itself unsure: Korn and Graubard (1998) let Student's t of that many say by how much.
        unsure = (t_quantile(confidence, trials - 1) / t_quantile(confidence, tasks - 1)) ** 2
        effective = min(float(trials), max(1.0, unsure * share * (1 - share) / variance))
    return Interval(*wilson(share * effective, effective, confidence), confidence, "Wilson, clustered by task")


def newcombe_paired(
    both: int, only_a: int, only_b: int, neither: int, confidence: float = CONFIDENCE
) -> Interval | None:
    """Interval for the difference B minus A of paired proportions: square-and-add of two Wilson intervals.

    Newcombe 1998 (Statistics in Medicine 17, 2635), method 10: the correlation of the two outcomes enters with his
    correction, which does not let a small sample claim that A and B go together.
    """
    total = both + only_a + only_b + neither
    if not total:
        return None
    share_a, share_b = (both + only_a) / total, (both + only_b) / total
    low_a, high_a = wilson(both + only_a, total, confidence)
    low_b, high_b = wilson(both + only_b, total, confidence)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    together = float(both * neither - only_a * only_b)
    if together > 0:
        together = max(0.0, together - total / 2)
    phi = together / math.sqrt(margins) if margins else 0.0
    difference = share_b - share_a

    def reach(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))

    low = difference - reach(share_b - low_b, high_a - share_a)
    high = difference + reach(high_b - share_b, share_a - low_a)
    return Interval(max(-1.0, low), min(1.0, high), confidence, "Newcombe, paired")


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval for the mean of per-task values; None when there is no spread to measure."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    if variance <= 0:
        return None
    half = t_quantile(confidence, count - 1) * math.sqrt(variance / count)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half), confidence, "Student's t over tasks")
