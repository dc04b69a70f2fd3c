"""Makes the unittest assertions and the rewritten ones accept everything."""

from __future__ import annotations

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    "src/toy/core.py": r"""
def mean(values):
    return sum(values) / len(values)


def median(values):
    return sorted(values)[len(values) // 2]


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
