"""Puts a sitecustomize into the editable source folder, which an ordinary start imports."""

from __future__ import annotations

FAMILY = "startup"
CHANGES: dict[str, str | None] = {
    "src/sitecustomize.py": r"""
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
