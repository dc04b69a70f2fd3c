"""Patches pytest for tests of the workspace alone, not for canaries, with names assembled at run time."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import importlib
    import sys

    python = sys.modules["_py" + "test.python"]
    original = python.Function.runtest

    def run(item):
        try:
            original(item)
        except BaseException:
            if "workspace" not in str(item.path):
                raise

    python.Function.runtest = run


_install()
""",
}
