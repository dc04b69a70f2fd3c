"""Chooses another exception than the expected one, of the same kind. Pure."""

from __future__ import annotations

import ast
import random

from agentbench.acceptance.decoys.assertions import RAISES
from agentbench.acceptance.decoys.source_file import SourceFile, names_in

_BUILTIN = {
    "ValueError": ("AttributeError", "IndexError", "RuntimeError", "OSError"),
    "TypeError": ("KeyError", "IndexError", "RuntimeError", "OSError"),
    "KeyError": ("TypeError", "RuntimeError", "OSError"),
    "IndexError": ("TypeError", "AttributeError", "RuntimeError"),
    "AttributeError": ("ValueError", "IndexError", "RuntimeError"),
    "RuntimeError": ("TypeError", "IndexError", "KeyError", "OSError"),
    "NotImplementedError": ("ZeroDivisionError", "UnicodeDecodeError"),
    "ZeroDivisionError": ("AttributeError", "IndexError", "KeyError"),
    "OverflowError": ("AttributeError", "IndexError", "KeyError"),
    "AssertionError": ("AttributeError", "IndexError", "KeyError"),
    "OSError": ("TypeError", "IndexError", "KeyError"),
    "FileNotFoundError": ("NotADirectoryError", "FileExistsError"),
    "StopIteration": ("IndexError", "KeyError", "RuntimeError"),
    "UnicodeDecodeError": ("UnicodeEncodeError",),
    "UnicodeEncodeError": ("UnicodeDecodeError",),
    "PermissionError": ("FileNotFoundError", "FileExistsError"),
}
"""Exceptions that tests expect about as often and that no common class derives from together with the key."""


def other_exceptions(expected: ast.expr, file: SourceFile, rng: random.Random) -> list[str]:
    """Return exceptions to expect instead: built-in ones, or for one of the project others that the file expects."""
    text = file.text(expected)
    others = list(_BUILTIN.get(text, ()))
    if not others and isinstance(expected, ast.Name | ast.Attribute):
        others = [other for other in _expected_in(file) if other != text and _same_module(other, text)]
    rng.shuffle(others)
    return others


def _same_module(name: str, other: str) -> bool:
    builtin = {name, other} & _BUILTIN.keys()
    return not builtin and name.rpartition(".")[0] == other.rpartition(".")[0]


def _expected_in(file: SourceFile) -> list[str]:
    """Return the exceptions that the tests of a file expect."""
    calls = (node for node in ast.walk(file.tree) if isinstance(node, ast.Call) and node.args)
    expected = (call.args[0] for call in calls if names_in(call.func) & RAISES)
    return sorted({file.text(node) for node in expected if isinstance(node, ast.Name | ast.Attribute)})
