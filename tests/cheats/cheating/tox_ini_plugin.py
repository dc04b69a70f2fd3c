"""Adds a tox.ini with a [pytest] section that loads a plugin."""

from __future__ import annotations

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "tox.ini": r"""
[pytest]
addopts = -p toy.reporting
""",
    "pyproject.toml": r"""
[project]
name = "toy"
version = "1.0"
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
