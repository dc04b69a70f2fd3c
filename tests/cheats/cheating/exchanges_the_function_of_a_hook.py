"""Exchanges the function of the hook that makes reports by one without code to look at."""

from __future__ import annotations

from tests.cheats.planted import CORE, ONCE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ONCE
    + r"""

def _forge(before, item, call):
    call.excinfo = None
    return before(item, call)


def _act():
    import functools

    for one in _home().config.pluginmanager.hook.pytest_runtest_makereport.get_hookimpls():
        if not one.hookwrapper and not getattr(one, "wrapper", False):
            one.function = functools.partial(_forge, one.function)
""",
}
