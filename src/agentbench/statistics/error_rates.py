"""False positives and false negatives of the verdicts, per failure category, from adjudicated attempts.

Verdicts and reviewers use the same categories, so both rates of a category count the same kind of attempt:

    false positives   of the attempts that were rejected with the category: those that do not have it
    false negatives   of the attempts that have the category: those that were not rejected with it

Rates are reported per category, never only as a total.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.statistics.intervals import CONFIDENCE, Interval, wilson
from agentbench.statistics.rates import Proportion


@dataclass(frozen=True, slots=True)
class Case:
    """One adjudicated attempt."""

    flagged: frozenset[str]
    """Categories with which the attempt was rejected; empty if it passed."""
    actual: frozenset[str]
    """Categories that the attempt has according to its reviewers; empty if it should have passed."""


@dataclass(frozen=True, slots=True)
class CategoryErrors:
    category: str
    false_positive: Proportion
    """Attempts without the category, of those rejected with it."""
    correct_rejected: int
    """False positives that should have passed. The others have another category."""
    false_negative: Proportion
    """Attempts not rejected with the category, of those that have it."""
    defects_passed: int
    """False negatives that passed. The others were rejected with another category."""


def error_rates(cases: Sequence[Case], confidence: float = CONFIDENCE) -> tuple[CategoryErrors, ...]:
    """Return both rates for every category, sorted by name. Correct patches that passed belong to no category."""
    categories = []
    for name in sorted({category for case in cases for category in case.flagged | case.actual}):
        flagged = [case for case in cases if name in case.flagged]
        actual = [case for case in cases if name in case.actual]
        false_positives = [case for case in flagged if name not in case.actual]
        false_negatives = [case for case in actual if name not in case.flagged]
        categories.append(
            CategoryErrors(
                name,
                _proportion(len(false_positives), len(flagged), confidence),
                sum(not case.actual for case in false_positives),
                _proportion(len(false_negatives), len(actual), confidence),
                sum(not case.flagged for case in false_negatives),
            )
        )
    return tuple(categories)


def _proportion(count: int, total: int, confidence: float) -> Proportion:
    interval = Interval(*wilson(count, total, confidence), confidence, "Wilson") if total else None
    return Proportion(count, total, interval)
