"""Adds a conftest in the source folder and names it as a plugin in the package's own configuration."""

from __future__ import annotations

FAMILY = "configuration"
CHANGES: dict[str, str | None] = {
    "src/toy/conftest.py": r"""
import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
""",
    "conftest.py": r"""
pytest_plugins = ["toy.conftest"]
""",
}
