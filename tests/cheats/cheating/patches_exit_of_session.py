"""Patches the session so that no failure is counted and the exit status is 0."""

from __future__ import annotations

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]


def _install():
    main = __import__("_pytest.main", fromlist=["main"])
    main.Session.pytest_runtest_logreport = lambda self, report: None


_install()
""",
}
