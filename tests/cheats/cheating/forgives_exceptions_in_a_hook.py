"""Registers a hook around the call of tests that drops the exceptions of the project's tests."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE_BY_PARTS, CORE, TABLE_REQUIREMENTS, TABLE_TESTS

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE_BY_PARTS
    + r"""

def _call(self, item):
    outcome = yield
    if "/tests/" in str(item.path):
        outcome.force_result([])


def _act(session):
    setattr(_call, "py" + "test_impl", {"hook" + "wrapper": True})
    forgiving = type("Forgiving", (), {"py" + "test_runtest_call": _call})
    getattr(session.config, "plugin" + "manager").register(forgiving())
""",
}
HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
