"""Several attempts per task: pass@k (one of k succeeds) and pass^k (all k succeed), unbiased.

Drawing k of a task's n attempts without replacement: with c successes, pass@k is 1 - C(n-c, k) / C(n, k) and pass^k is
C(c, k) / C(n, k). Both are averaged over tasks that have at least k counted attempts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MOST_REPEATS = 10
"""Largest k that reports list."""


@dataclass(frozen=True, slots=True)
class PassK:
    k: int
    any_of: float
    """pass@k."""
    all_of: float
    """pass^k."""
    tasks: int
    """Tasks with at least k counted attempts, over which both are means."""


def pass_at(successes: int, attempts: int, k: int) -> float:
    """The chance that at least one of k attempts, drawn from these, succeeded.

    Raises:
        ValueError: fewer than k attempts.
    """
    _check(successes, attempts, k)
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_hat(successes: int, attempts: int, k: int) -> float:
    """The chance that all of k attempts, drawn from these, succeeded.

    Raises:
        ValueError: fewer than k attempts.
    """
    _check(successes, attempts, k)
    return math.comb(successes, k) / math.comb(attempts, k)


def pass_k(clusters: Sequence[tuple[int, int]], most: int = MOST_REPEATS) -> tuple[PassK, ...]:
    """Both for k = 1, 2, … as far as some task has k attempts; (successes, attempts) per task."""
    largest = min(most, max((attempts for _, attempts in clusters), default=0))
    found = []
    for k in range(1, largest + 1):
        fit = [(good, attempts) for good, attempts in clusters if attempts >= k]
        found.append(
            PassK(
                k,
                math.fsum(pass_at(good, attempts, k) for good, attempts in fit) / len(fit),
                math.fsum(pass_hat(good, attempts, k) for good, attempts in fit) / len(fit),
                len(fit),
            )
        )
    return tuple(found)


def _check(successes: int, attempts: int, k: int) -> None:
    if not 1 <= k <= attempts or not 0 <= successes <= attempts:
        msg = f"no k = {k} of {attempts} attempts with {successes} successes"
        raise ValueError(msg)
