"""Replaces the callbacks in the cells of the runner's hooks."""

from __future__ import annotations

from tests.cheats.snippets import ACT_ONCE, CORE

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: ACT_ONCE
    + r"""

def _act():
    for one in _finder().config.pluginmanager.hook.pytest_runtest_logreport.get_hookimpls():
        if not hasattr(one.plugin, "__dict__"):
            cell = one.function.__closure__[0]
            before = cell.cell_contents

            def reported(report):
                if "tests/" in report.nodeid:
                    report.outcome = "passed"
                before(report)

            cell.cell_contents = reported
""",
}
