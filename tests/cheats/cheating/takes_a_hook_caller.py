"""Puts itself before the caller of the hook that makes reports."""

from __future__ import annotations

from tests.cheats.planted import CORE, ONCE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ONCE
    + r"""

def _act():
    hook = _home().config.pluginmanager.hook.pytest_runtest_makereport
    before = hook._hookexec

    def inner(name, methods, kwargs, firstresult):
        if "tests/" in str(kwargs["item"].path):
            kwargs["call"].excinfo = None
        return before(name, methods, kwargs, firstresult)

    hook._hookexec = inner
""",
}
