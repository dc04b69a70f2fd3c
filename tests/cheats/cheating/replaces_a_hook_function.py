"""Replaces the function of the hook that creates reports with one that has no code to inspect."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE, CORE

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE
    + r"""

def _forge(before, item, call):
    call.excinfo = None
    return before(item, call)


def _act():
    import functools

    for one in _finder().config.pluginmanager.hook.pytest_runtest_makereport.get_hookimpls():
        if not one.hookwrapper and not getattr(one, "wrapper", False):
            one.function = functools.partial(_forge, one.function)
""",
}
