"""False positives and false negatives of the verdicts, per failure category, from adjudicated attempts.

A false positive is a correct patch that was rejected; a false negative is a defect that passed. Rates are reported per
category, never only as a total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.statistics.intervals import CONFIDENCE, Interval, wilson
from agentbench.statistics.rates import Proportion


@dataclass(frozen=True, slots=True)
class Case:
    """One adjudicated attempt."""

    category: str
    """The failure reason, or for a passed attempt the kind of defect the reviewer found."""
    passed: bool
    correct: bool


@dataclass(frozen=True, slots=True)
class CategoryErrors:
    category: str
    false_positive: Proportion
    """Correct patches among adjudicated rejections in this category."""
    false_negative: Proportion
    """Defects that passed among all adjudicated defects in this category."""


def error_rates(cases: Sequence[Case], confidence: float = CONFIDENCE) -> tuple[CategoryErrors, ...]:
    """Return both rates for every category, sorted by name. Correct patches that passed belong to no category."""
    names = sorted({case.category for case in cases if not (case.passed and case.correct)})
    categories = []
    for name in names:
        rejected = [case for case in cases if case.category == name and not case.passed]
        defects = [case for case in cases if case.category == name and not case.correct]
        categories.append(
            CategoryErrors(
                name,
                _proportion(sum(case.correct for case in rejected), len(rejected), confidence),
                _proportion(sum(case.passed for case in defects), len(defects), confidence),
            )
        )
    return tuple(categories)


def _proportion(count: int, total: int, confidence: float) -> Proportion:
    interval = Interval(*wilson(count, total, confidence), confidence, "Wilson") if total else None
    return Proportion(count, total, interval)
