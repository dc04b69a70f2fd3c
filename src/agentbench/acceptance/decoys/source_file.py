"""A parsed test file: its functions, the byte positions of its nodes, and how often each name is used. Pure."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping

from agentbench.acceptance.decoys.mutation import MAX_SOURCE, Place
from agentbench.acceptance.decoys.prose import descriptions, names_of
from agentbench.core import python_syntax as syntax

TestDef = ast.FunctionDef | ast.AsyncFunctionDef
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SourceFile:
    """A test file that was parsed.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError: the source is not UTF-8 or not Python, or too large.
    """

    def __init__(self, source: bytes) -> None:
        if len(source) > MAX_SOURCE or source.startswith(_BYTE_ORDER_MARK):
            raise ValueError("a source that is too large or has a byte order mark")
        source.decode()
        self.source = source
        self.tree = syntax.parse(source)
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self.functions: Mapping[Place, TestDef] = dict(_functions(self.tree, ()))
        """Functions of the module and of its classes. Of two with one name, the last counts."""
        self.uses = Counter(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        """How often each name is read or assigned."""
        self.parameters = Counter(node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg))
        self.constants = [node for node in ast.walk(self.tree) if isinstance(node, ast.Constant)]
        self._comments = dict(_comments(source))
        self._docstrings = list(_docstrings(self.tree))
        self._row_ids = list(_row_ids(self.tree))
        self.literals: dict[type, list[str]] = {}
        """Every literal as it is written, by type, as often as it occurs."""
        for node in self.constants:
            self.literals.setdefault(type(node.value), []).append(self.text(node))

    def start(self, node: ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def prose(self, test: TestDef, place: Place, *, without: ast.expr | None = None) -> str:
        """Return what a test says in words: its name and those of its classes, docstring, comments, messages, descriptions.

        Docstrings of the module and its classes, and ids of rows, may belong to any test. `without` is an id to leave out.
        """
        first, last = self._first_line(test), test.end_lineno or test.lineno
        comments = [text for line, text in self._comments.items() if first <= line <= last]
        messages = [self.text(message) for message in (*_messages(test), *descriptions(test))]
        words = [names_of(place), ast.get_docstring(test) or "", *comments, *messages]
        ids = [self.text(row_id) for row_id in self._row_ids if row_id is not without]
        return "\n".join([*words, *self._docstrings, *ids])

    def _first_line(self, test: TestDef) -> int:
        """Return the first line of a test with its decorators and the comments directly above it."""
        first = min([test.lineno, *(part.lineno for part in test.decorator_list)])
        while first - 1 in self._comments:
            first -= 1
        return first

    def function_around(self, line: int) -> Place | None:
        """Return the function whose body or signature contains a line, or None."""
        for place, function in self.functions.items():
            if function.lineno <= line <= (function.end_lineno or function.lineno):
                return place
        return None

    def lines(self, place: Place) -> tuple[int, int]:
        """Return the byte range of the lines of a function, decorators included."""
        function = self.functions[place]
        first = min([function.lineno, *(part.lineno for part in function.decorator_list)])
        return self._starts[first - 1], self._starts[function.end_lineno or function.lineno]

    def module_constant(self, name: str) -> ast.expr | None:
        """Return the value of a name that the module assigns once and the file uses once, or None."""
        if self.uses[name] != 2 or self.parameters[name]:
            return None
        return next((value for target, value in _assignments(self.tree.body) if target == name), None)


def _comments(source: bytes) -> Iterator[tuple[int, str]]:
    """Yield the comments of a source with their lines."""
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except tokenize.TokenError as error:
        raise ValueError("a source that cannot be split into tokens") from error
    yield from ((token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT)


def _messages(test: TestDef) -> Iterator[ast.expr]:
    """Yield the messages of assertions: of `assert`, and the last text among more than two arguments of unittest's."""
    for node in ast.walk(test):
        match node:
            case ast.Assert(msg=ast.expr() as message) | ast.keyword(arg="msg", value=message):
                yield message
            case ast.Call(func=ast.Attribute(attr=name), args=[_, _, *_, message]) if name.startswith("assert"):
                yield message


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            yield ast.get_docstring(node) or ""


def _row_ids(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what names the rows of `parametrize` tables, also lists of names that the module assigns."""
    lists = dict(_assignments(tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in {"id", "ids"}:
            yield node.value
            if isinstance(node.value, ast.Name) and node.value.id in lists:
                yield lists[node.value.id]


def names_in(node: ast.AST) -> set[str]:
    """Return every name and attribute in a node."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def defined_names(source: bytes) -> set[str]:
    """Return the names that a source defines or assigns; empty if it cannot be parsed."""
    tree = syntax.parse_or_none(source)
    nodes = () if tree is None else ast.walk(tree)
    return {
        node.id if isinstance(node, ast.Name) else node.name
        for node in nodes
        if isinstance(node, TestDef | ast.ClassDef) or (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    }


def local_value(name: str, test: TestDef) -> ast.expr | None:
    """Return the value that a test assigns to a name in its outermost block, if it binds the name nowhere else."""
    bound = [
        node
        for node in ast.walk(test)
        if (isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg) and node.arg == name)
    ]
    values = [value for target, value in _assignments(test.body) if target == name]
    return values[0] if len(bound) == len(values) == 1 else None


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _functions(node: ast.Module | ast.ClassDef, above: Place) -> Iterator[tuple[Place, TestDef]]:
    for child in node.body:
        if isinstance(child, TestDef):
            yield (*above, child.name), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*above, child.name))
