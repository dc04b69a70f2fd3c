"""The rules give the same matches for some lines of a file as for all of it."""

from __future__ import annotations

import ast

import pytest

from agentbench.acceptance.inspection.rule_match import SyntaxNodes
from agentbench.acceptance.inspection.tampering import find_tampering

pytestmark = pytest.mark.component

SOURCE = """\
import sys, os, inspect, atexit
from unittest.mock import ANY
try:
    import tomllib
except ImportError:
    pytest.skip("no tomllib")

@register(sys.exit(0))
class Same(float):
    def __eq__(self, other):
        return (
            True
        )

    __ne__ = lambda self, other: False

def caller():
    frame = sys._getframe().f_back
    frame.f_locals["x"] = getattr(
        frame,
        "f_locals",
    )
    return inspect.stack()[1][4]

class Range:
    def __eq__(self, other):
        return 1 <= other <= 2

for finder in sys.meta_path:
    finder.session.pluginmanager = None
exec(
    open("data").read()
)
path = [
    "/proc/self/fd",
]
setattr(pytest, "main", type("T", (), {"__eq__": lambda s, o: True}))
if sys.version_info < (3, 8):
    os._exit(0)
"""


def test_matches_of_single_lines_are_those_of_the_whole_file() -> None:
    syntax = SyntaxNodes(ast.parse(SOURCE))
    every_match = list(find_tampering(syntax, script=False))
    assert len({match.rule for match in every_match}) >= 6
    for line in range(1, SOURCE.count("\n") + 1):
        wanted = [match for match in every_match if match.touches([line])]
        found = find_tampering(syntax, script=False, lines=[line])
        assert [match for match in found if match.touches([line])] == wanted, SOURCE.splitlines()[line - 1]


def test_nodes_are_those_of_ast_walk() -> None:
    tree = ast.parse(SOURCE)
    assert SyntaxNodes(tree).nodes == list(ast.walk(tree))
