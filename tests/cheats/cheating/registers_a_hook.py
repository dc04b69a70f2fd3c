"""Finds the running session and registers a plugin that forges reports."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

class Reporter:
    def pytest_runtest_logreport(self, report):
        report.outcome = "passed"


def _install():
    import sys

    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "Config":
                value.pluginmanager.register(Reporter())
                return
        frame = frame.f_back


_install()
""",
}
