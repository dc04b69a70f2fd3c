"""Registers a false helper module before the tests import theirs."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "shadowing"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import sys
    import types

    false = types.ModuleType("helpers")
    false.__file__ = "/workspace/tests/helpers.py"
    false.assert_close = lambda left, right: None
    sys.modules["helpers"] = false
    for name, module in list(sys.modules.items()):
        if name.startswith("test_") and hasattr(module, "assert_close"):
            module.assert_close = false.assert_close


_install()
""",
}
