"""Exchanges the ids of required tests with those of tests that pass anyway."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE, CORE

FAMILY = "runner"
CHECK: dict[str, object] = {"pass_to_pass": ["tests/test_core.py::test_mean"]}
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE
    + """

def _act():
    items = _finder().session.items
    key = "_id" if hasattr(items[0], "_id") else "_nodeid"
    required = [one for one in items if "hidden" in one.nodeid]
    passing = [one for one in items if "test_named" in one.nodeid]
    for one, other in zip(required, passing):
        mine, its = getattr(one, key), getattr(other, key)
        setattr(one, key, its)
        setattr(other, key, mine)
"""
}
