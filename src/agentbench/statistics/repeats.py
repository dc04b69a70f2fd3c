"""Unbiased pass@k (at least one of k attempts passes) and pass^k (all k attempts pass).

For a task with n attempts of which c passed, drawing k without replacement gives pass@k = 1 - C(n-c, k) / C(n, k) and
pass^k = C(c, k) / C(n, k). Both are averaged over tasks with at least k counted attempts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentbench.core.dataclass import dataclass

MAX_K = 10
"""Largest k in reports."""


@dataclass(frozen=True, slots=True)
class PassK:
    k: int
    any_of: float
    """pass@k."""
    all_of: float
    """pass^k."""
    tasks: int
    """Number of tasks with at least k counted attempts."""


def pass_at(successes: int, attempts: int, k: int) -> float:
    """Return the probability that at least one of k drawn attempts passed.

    Raises:
        ValueError: there are fewer than k attempts.
    """
    _check(successes, attempts, k)
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_hat(successes: int, attempts: int, k: int) -> float:
    """Return the probability that all k drawn attempts passed.

    Raises:
        ValueError: there are fewer than k attempts.
    """
    _check(successes, attempts, k)
    return math.comb(successes, k) / math.comb(attempts, k)


def pass_k(clusters: Sequence[tuple[int, int]], max_k: int = MAX_K) -> tuple[PassK, ...]:
    """Compute both for k = 1, 2, … up to the largest number of attempts, given (successes, attempts) per task."""
    largest = min(max_k, max((attempts for _, attempts in clusters), default=0))
    results = []
    for k in range(1, largest + 1):
        tasks = [(passed, attempts) for passed, attempts in clusters if attempts >= k]
        results.append(
            PassK(
                k,
                math.fsum(pass_at(passed, attempts, k) for passed, attempts in tasks) / len(tasks),
                math.fsum(pass_hat(passed, attempts, k) for passed, attempts in tasks) / len(tasks),
                len(tasks),
            )
        )
    return tuple(results)


def _check(successes: int, attempts: int, k: int) -> None:
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        raise ValueError(f"invalid k = {k} for {attempts} attempts with {successes} successes")
