"""Exchanges what the hooks of the recorder call."""

from __future__ import annotations

from tests.cheats.planted import CORE, ONCE

FAMILY = "forged_results"
CHANGES: dict[str, str | None] = {
    CORE: ONCE
    + r"""

def _act():
    for one in _home().config.pluginmanager.hook.pytest_runtest_logreport.get_hookimpls():
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
