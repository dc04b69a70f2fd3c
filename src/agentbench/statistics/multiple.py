"""Comparisons of several methods: adjusted p-values, the best set, the cost-quality front, and Bradley-Terry strengths."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

PRIOR_WINS = 0.5
"""Wins added to both methods of every pair, so that strengths stay finite when a method wins or loses everything."""
MAX_STEPS = 10_000
TOLERANCE = 1e-10


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false finding among them stays at alpha (Holm's step-down method)."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def best_set(methods: int, beaten: Collection[tuple[int, int]]) -> list[int]:
    """Return the methods that no other method beats significantly. `beaten` has (better, worse)."""
    worse = {loser for _, loser in beaten}
    return [method for method in range(methods) if method not in worse]


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the points (cost, quality) that no other point dominates, cheapest first.

    A point dominates another if it is at least as good in both and better in one.
    """

    def dominated(index: int) -> bool:
        cost, quality = points[index]
        return any(other[0] <= cost and other[1] >= quality and other != (cost, quality) for other in points)

    return sorted((index for index in range(len(points)) if not dominated(index)), key=lambda index: points[index])


def bradley_terry(wins: Sequence[Sequence[float]]) -> list[float]:
    """Return the strength of each method on a log scale with mean 0. `wins[i][j]`: how often i won against j.

    The chance that i wins against j is 1 / (1 + exp(strength[j] - strength[i])). Found by the MM algorithm (Hunter 2004)
    on the wins plus PRIOR_WINS per pair and side.
    """
    size = len(wins)
    counted = [[wins[i][j] + PRIOR_WINS if i != j else 0.0 for j in range(size)] for i in range(size)]
    won = [math.fsum(row) for row in counted]
    strengths = [1.0] * size
    for _ in range(MAX_STEPS):
        updated = [
            won[i]
            / math.fsum((counted[i][j] + counted[j][i]) / (strengths[i] + strengths[j]) for j in range(size) if j != i)
            for i in range(size)
        ]
        mean = math.exp(math.fsum(map(math.log, updated)) / size)
        updated = [strength / mean for strength in updated]
        moved = max(abs(math.log(new / old)) for new, old in zip(updated, strengths, strict=True))
        strengths = updated
        if moved < TOLERANCE:
            break
    return [math.log(strength) for strength in strengths]
