"""Adds a conftest at the root that turns every report into a pass."""

from __future__ import annotations

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "conftest.py": r"""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
""",
}
