"""Adds a .pytest.ini and a plugin module that falsifies reports."""

from __future__ import annotations

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    ".pytest.ini": r"""
[pytest]
addopts = -p toy.reporting
""",
    "src/toy/reporting.py": r"""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
""",
}
