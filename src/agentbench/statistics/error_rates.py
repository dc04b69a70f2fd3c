"""Verdicts held against the truth that people found: false positives and negatives per failure category (A-05).

As the paper has it: a false positive is a correct patch that was rejected, a false negative a defect that escaped. Each is
reported per category; the sum over categories is never given alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.statistics.intervals import CONFIDENCE, Interval, wilson
from agentbench.statistics.rates import Proportion


@dataclass(frozen=True, slots=True)
class Case:
    """One adjudicated attempt. `category`: its failure reason, or the kind of defect a person found in a passed one."""

    category: str
    passed: bool
    correct: bool


@dataclass(frozen=True, slots=True)
class CategoryTruth:
    category: str
    false_positive: Proportion
    """Correct patches among the adjudicated rejections of this category."""
    false_negative: Proportion
    """Escaped defects among the adjudicated defects of this category, caught or not."""


def error_rates(cases: Sequence[Case], confidence: float = CONFIDENCE) -> tuple[CategoryTruth, ...]:
    """Both rates for every category, by name. Correct patches that passed are no error and belong to no category."""
    names = sorted({one.category for one in cases if not (one.passed and one.correct)})
    found = []
    for name in names:
        rejected = [one for one in cases if one.category == name and not one.passed]
        defects = [one for one in cases if one.category == name and not one.correct]
        found.append(
            CategoryTruth(
                name,
                _proportion(sum(one.correct for one in rejected), len(rejected), confidence),
                _proportion(sum(one.passed for one in defects), len(defects), confidence),
            )
        )
    return tuple(found)


def _proportion(count: int, total: int, confidence: float) -> Proportion:
    interval = Interval(*wilson(count, total, confidence), confidence, "Wilson") if total else None
    return Proportion(count, total, interval)
