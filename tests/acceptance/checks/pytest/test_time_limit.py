"""Limit runs by the proven duration of the reference."""

from __future__ import annotations

import pytest

from agentbench.acceptance.checks.pytest.time_limit import TimeLimit, time_limit

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    "declared, reference, limit, text",
    [
        (300, None, TimeLimit(300), "limit 300 s"),
        (300, 0.4, TimeLimit(30, 0.4), "limit 30 s, the reference takes 0.4 s"),
        (300, 4.0, TimeLimit(50, 4.0), "limit 50 s, the reference takes 4.0 s"),
        (300, 29.5, TimeLimit(300), "limit 300 s"),
        (20, 0.4, TimeLimit(20), "limit 20 s"),
    ],
)
def test_proven_duration_can_only_lower_the_declared_limit(
    declared: float, reference: float | None, limit: TimeLimit, text: str
) -> None:
    assert time_limit(declared, reference) == limit
    assert str(limit) == text
