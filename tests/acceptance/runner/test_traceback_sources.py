"""Statements found in a part of a file are those that pytest finds in the whole file."""

from __future__ import annotations

import ast
import inspect
import textwrap
import unittest.mock
from types import ModuleType

import pytest
from _pytest._code.source import Source, getstatementrange_ast

from agentbench.acceptance.runner.traceback_sources import statements_around
from tests.acceptance import toy

pytestmark = pytest.mark.component

UNUSUAL = textwrap.dedent(
    '''
    import pytest


    @pytest.mark.parametrize(
        "value",
        [1, 2],
    )
    @pytest.mark.slow
    def test_decorated(value):
        # a comment
        try:
            assert value == (
                3
            )
        except ValueError:
            pass
        else:
            raise
        finally:
            value = """
    not a statement
    """


    class TestOuter(
        object,
    ):
        limit = 1

        class TestInner:
            @property
            def test_a(self): return 1

            def test_b(self):
                if self.limit:
                    return 2

        def test_c(self): assert 1; assert 2


    class Empty: pass
    # the end

    if __name__ == "__main__":
        print(
            1)
    else:
        print(2)
    '''
)


@pytest.mark.parametrize("source", [UNUSUAL, toy, unittest.mock, pytest], ids=["unusual", "toy", "mock", "pytest"])
def test_each_line_has_the_same_statement(source: str | ModuleType) -> None:
    text = Source(source if isinstance(source, str) else inspect.getsource(source))
    tree = ast.parse(str(text))
    for line in range(len(text.lines)):
        found = getstatementrange_ast(line, text, astnode=statements_around(tree, line + 1))
        assert found[1:] == getstatementrange_ast(line, text, astnode=tree)[1:], line
