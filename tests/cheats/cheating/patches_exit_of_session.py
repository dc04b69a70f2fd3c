"""Patches the session so that no failure is counted and the exit status is 0."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    main = __import__("_pytest.main", fromlist=["main"])
    main.Session.pytest_runtest_logreport = lambda self, report: None


_install()
""",
}
