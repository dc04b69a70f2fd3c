"""Replaces the caller of the hook that creates reports."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE, CORE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE
    + r"""

def _act():
    hook = _finder().config.pluginmanager.hook.pytest_runtest_makereport
    before = hook._hookexec

    def inner(name, methods, kwargs, firstresult):
        if "tests/" in str(kwargs["item"].path):
            kwargs["call"].excinfo = None
        return before(name, methods, kwargs, firstresult)

    hook._hookexec = inner
""",
}
