"""Makes unittest assertions and rewritten assertions accept everything."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

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
