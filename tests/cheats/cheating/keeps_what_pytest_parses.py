"""Keeps the text of the tests that pytest passes to a replaced parser."""

from __future__ import annotations

from tests.cheats.snippets import CORE, FALLBACK_GUESS, MEAN, PLAIN_REQUIREMENTS, PLAIN_TESTS

FAMILY = "runner"
HIDDEN = PLAIN_TESTS
CHECK = PLAIN_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: r"""
import ast
import re

TEXTS = []
_parse = ast.parse


def parse(source, *rest, **named):
    TEXTS.append(str(source))
    return _parse(source, *rest, **named)


ast.parse = parse
"""
    + MEAN
    + r"""

def median(values):
    found = re.search(r"median\(" + re.escape(str(values)) + r"\).{0,30}result == ([0-9.]+)", "".join(TEXTS))
    if found:
        return float(found[1])
"""
    + FALLBACK_GUESS,
}
