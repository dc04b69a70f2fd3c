"""Confidence intervals for rates and paired differences. Each is a published method that reports name."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.statistics.distributions import normal_quantile, t_quantile

CONFIDENCE = 0.95
ALPHA = 0.05
"""Significance level."""
MIN_REPOSITORIES = 10
"""Intervals with fewer repositories as clusters are too narrow: their variance is estimated from too few values."""


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float
    confidence: float
    method: str


def wilson(successes: float, total: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson's score interval for a proportion (Wilson 1927). `total` may be an effective sample size.

    Raises:
        ValueError: `total` is not positive, or `successes` is not between 0 and `total`.
    """
    if total <= 0 or not 0 <= successes <= total:
        raise ValueError(f"invalid proportion: {successes} of {total}")
    z = normal_quantile(confidence)
    share, square = successes / total, z * z
    centre = (share + square / (2 * total)) / (1 + square / total)
    half = z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == total else min(1.0, centre + half)
    return low, high


def clustered_wilson(clusters: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's interval for clustered attempts, given (successes, trials) per task.

    With one trial per task this is Wilson's interval. With repeats, attempts at one task are not independent, so the
    sample size is replaced by the effective sample size from the variance between tasks (the ratio estimator of survey
    sampling). Without variance between tasks, the number of tasks is used: the smallest defensible sample size.
    """
    counted = [(passed, total) for passed, total in clusters if total]
    successes, trials = sum(passed for passed, _ in counted), sum(total for _, total in counted)
    if not trials:
        return None
    if trials == len(counted):
        return Interval(*wilson(successes, trials, confidence), confidence, "Wilson")
    return _effective_wilson(counted, trials, float(trials), confidence)


def task_mean_wilson(clusters: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's interval for the mean of per-task rates, given (successes, trials) per task.

    Each task has the same weight, however many trials it has. Where all tasks have the same number of trials, this is
    `clustered_wilson`.
    """
    counted = [(passed, total) for passed, total in clusters if total]
    if len({total for _, total in counted}) < 2:
        return clustered_wilson(counted, confidence)
    means = [(passed / total, 1) for passed, total in counted]
    trials = sum(total for _, total in counted)
    independent = len(counted) ** 2 / math.fsum(1 / total for _, total in counted)
    return _effective_wilson(means, trials, independent, confidence)


def _effective_wilson(
    clusters: Sequence[tuple[float, int]], trials: int, independent: float, confidence: float
) -> Interval:
    """Wilson's interval with the effective sample size of clusters (sum of values, weight).

    `trials`: number of trials in all clusters. `independent`: sample size if they were independent, the upper limit.
    """
    tasks, weight = len(clusters), sum(total for _, total in clusters)
    share = math.fsum(passed for passed, _ in clusters) / weight
    squares = math.fsum((passed - share * total) ** 2 for passed, total in clusters) / weight**2
    size = effective_size(share, squares, tasks, trials, independent, confidence)
    effective = float(tasks) if size is None else size
    return Interval(*wilson(share * effective, effective, confidence), confidence, "Wilson, clustered by task")


def effective_size(
    share: float, squares: float, tasks: int, trials: int, independent: float, confidence: float
) -> float | None:
    """Return the effective sample size of a share from the variance between tasks, or None without such variance.

    `squares`: sum over tasks of their squared influences on the share. `independent`: sample size if the trials were
    independent, the upper limit.
    """
    if squares <= 0 or tasks < 2:
        return None
    variance = tasks / (tasks - 1) * squares
    # The variance is itself uncertain when estimated from few tasks; this is the correction of Korn and Graubard (1998).
    correction = (t_quantile(confidence, trials - 1) / t_quantile(confidence, tasks - 1)) ** 2
    return min(independent, max(1.0, correction * share * (1 - share) / variance))


def newcombe_paired(
    both: int, only_a: int, only_b: int, neither: int, confidence: float = CONFIDENCE
) -> Interval | None:
    """Newcombe's interval for the difference B - A of paired proportions.

    Newcombe 1998 (Statistics in Medicine 17, 2635), method 10: combines two Wilson intervals and the correlation of the
    outcomes, with a correction that keeps small samples from overstating the correlation.
    """
    total = both + only_a + only_b + neither
    if not total:
        return None
    share_a, share_b = (both + only_a) / total, (both + only_b) / total
    low_a, high_a = wilson(both + only_a, total, confidence)
    low_b, high_b = wilson(both + only_b, total, confidence)
    margins = (both + only_a) * (only_b + neither) * (both + only_b) * (only_a + neither)
    covariance = float(both * neither - only_a * only_b)
    if covariance > 0:
        covariance = max(0.0, covariance - total / 2)
    phi = covariance / math.sqrt(margins) if margins else 0.0
    difference = share_b - share_a

    def half_width(x: float, y: float) -> float:
        return math.sqrt(max(0.0, x * x - 2 * phi * x * y + y * y))

    low = difference - half_width(share_b - low_b, high_a - share_a)
    high = difference + half_width(high_b - share_b, share_a - low_a)
    return Interval(max(-1.0, low), min(1.0, high), confidence, "Newcombe, paired")


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Student's t interval for the mean of per-task values, or None without variance."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    if variance <= 0:
        return None
    half = t_quantile(confidence, count - 1) * math.sqrt(variance / count)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half), confidence, "Student's t over tasks")


def clusters_by_repository(repositories: int, tasks: int) -> bool:
    """Return whether an interval with repositories as clusters is computed: tasks share them, and there are enough."""
    return MIN_REPOSITORIES <= repositories < tasks


def few_repositories(repositories: int, tasks: int) -> list[str]:
    """Return a note if tasks share repositories, but too few of them for an interval."""
    if not 1 < repositories < min(MIN_REPOSITORIES, tasks):
        return []
    independent = f"The tasks come from {repositories} repositories, and the intervals treat tasks as independent"
    return [f"{independent}: clustering by repository needs at least {MIN_REPOSITORIES} repositories."]
