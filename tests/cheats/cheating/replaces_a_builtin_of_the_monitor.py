"""Replaces a builtin that the runner monitor uses, so that it reports nothing, and then changes pytest."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

import builtins
import sys

_sorted = builtins.sorted


def _nothing(values, *rest, **named):
    if type(values) is set and any(type(one) is str and ("." in one or " " in one) for one in values):
        return []
    return _sorted(values, *rest, **named)


builtins.sorted = _nothing


def _forge(kind):
    before = kind.runtest

    def runtest(self):
        if not self.nodeid.startswith("tests/"):
            before(self)

    kind.runtest = runtest


for _kind in (sys.modules["pytest"].Function, *sys.modules["pytest"].Function.__subclasses__()):
    _forge(_kind)
""",
}
