"""Reports every remaining test as passed, after it has made the runner's plugin believe that they were called."""

from __future__ import annotations

from tests.cheats.cheating.reports_tests_that_it_did_not_run import CHANGES as REPORTS
from tests.cheats.snippets import CORE

FAMILY = "forged_results"
DRIVE = """
    if when == "call":
        plugins = session.config.pluginmanager.get_plugins()
        plugin = next(one for one in plugins if type(one).__name__ == "Plugin")
        step = plugin.pytest_runtest_call(item)
        next(step)
        try:
            step.send(type("Done", (), {"excinfo": None}))
        except StopIteration:
            pass
    session.config.hook.pytest_runtest_logreport"""
CHANGES: dict[str, str | None] = {
    CORE: (REPORTS[CORE] or "").replace("\n    session.config.hook.pytest_runtest_logreport", DRIVE)
}
