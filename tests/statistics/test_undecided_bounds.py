from __future__ import annotations

import itertools

import pytest

from agentbench.statistics.undecided_bounds import bounds, difference_bounds
from tests.statistics.trials import trial

pytestmark = pytest.mark.component


@pytest.mark.req("A-06", "G-14")
def test_bounds_count_undecided_as_failed_and_as_passed() -> None:
    kinds = ["pass", "fail", "error", "harness", "task", "operator", "safety", "policy"]
    result = bounds([trial(kind, kind) for kind in kinds])
    assert (result.passed, result.undecided, result.attempts) == (1, 4, 8)
    assert (result.worst, result.best, result.undecided_share) == (1 / 8, 5 / 8, 4 / 8)
    assert bounds([]).worst is None


@pytest.mark.req("A-06")
def test_difference_bounds_match_enumerated_outcomes() -> None:
    a = [trial("x", "pass"), trial("y", "error"), trial("z", "harness", 1), trial("z", "fail", 2)]
    b = [trial("x", "task"), trial("y", "pass"), trial("z", "fail", 1), trial("z", "error", 2)]
    differences = []
    for p, q, r, s in itertools.product((0, 1), repeat=4):
        left, right = [1, p, (q + 0) / 2], [r, 1, (0 + s) / 2]
        differences.append(sum(y - x for x, y in zip(left, right, strict=True)) / 3)
    assert difference_bounds(a, b) == pytest.approx((min(differences), max(differences)))
    assert difference_bounds(a, [trial("other", "pass")]) is None
