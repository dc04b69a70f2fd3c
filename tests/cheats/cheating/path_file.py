"""Plants a .pth file whose import line patches the runner at start-up."""

from __future__ import annotations

FAMILY = "startup"
CHANGES: dict[str, str | None] = {
    "src/zz.pth": r"""
import zz_start
""",
    "src/zz_start.py": r"""
import sys


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "toy":
            import _pytest.reports as reports

            original = reports.TestReport.from_item_and_call.__func__

            def forged(cls, item, call):
                call.excinfo = None
                return original(cls, item, call)

            reports.TestReport.from_item_and_call = classmethod(forged)
        return None


sys.meta_path.insert(0, Finder())
""",
}
