"""Makes the unittest assertions and the rewritten ones accept everything."""

from __future__ import annotations

from tests.cheats.planted import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import builtins
    import unittest

    unittest.TestCase.assertEqual = lambda *args, **kwargs: None

    class Quiet(Exception):
        def __init__(self, *args):
            raise StopIteration

    builtins.AssertionError = Quiet


_install()
""",
}
