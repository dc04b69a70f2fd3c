"""Patches pytest's report class from product code."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import _pytest.reports as reports

    original = reports.TestReport.from_item_and_call.__func__

    def forged(cls, item, call):
        call.excinfo = None
        return original(cls, item, call)

    reports.TestReport.from_item_and_call = classmethod(forged)


_install()
""",
}
