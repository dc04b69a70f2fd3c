"""Find what hidden tests demand and a solver cannot know: exact texts, literals and exception types. Pure.

A text or a number counts if the fix adds it, a required test compares with it, and neither the statement nor the base
repository contains it. An exception type counts if a required test expects it, and neither the statement nor the changed files
mention it. A solution that follows the statement can then fail, so a person must approve the task or complete its statement.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.python_syntax import parse_or_none

_RAISES = frozenset({"raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex"})
_REGEX = frozenset({"assertRaisesRegex", "assertWarnsRegex"})
_COMPARISONS = {"assertEqual": ast.Eq, "assertNotEqual": ast.NotEq, "assertIn": ast.In, "assertNotIn": ast.NotIn}
"""Methods of unittest that compare their first two arguments."""
_MESSAGE = re.compile(r"\bstr\(|\.value\b|\.args\b|\.message\b|\bcaplog\b|\berr\b|\.stderr\b")
_MIN_TEXT = 4
_SMALL = 12
"""Whole numbers up to this occur in any code, so they prove nothing."""
_SHOWN = 100

Kind = Literal["text", "value", "exception"]


@dataclass(frozen=True, slots=True)
class Demand:
    """Something that a hidden test requires and nothing tells the solver."""

    kind: Kind
    wanted: str
    place: str
    """File and line of the test."""
    suggestion: str
    """A sentence that would make the statement complete."""

    def line(self) -> str:
        what = {"text": "the exact text", "value": "the value", "exception": "the exception type"}[self.kind]
        where = (
            "the statement nor the changed files mention" if self.kind == "exception" else "statement nor code mention"
        )
        return (
            f"hidden tests demand {what} {self.wanted}, which neither {where} ({self.place}); "
            f"add for instance: {self.suggestion}"
        )


@dataclass(frozen=True, slots=True)
class KnownTexts:
    """Everything that a solver can read."""

    statement: str
    base: str
    """All text files of the base repository."""
    changed: str
    """The files that the fix changes, as they are in the base repository."""


def find_demands(
    hidden: Mapping[str, bytes], required: Iterable[str], patch: bytes, known: KnownTexts
) -> tuple[Demand, ...]:
    """Return the demands of the required tests, each once. `required` are test ids."""
    added = _added_constants(patch)
    demands: dict[str, Demand] = {}
    for path, function in _required_functions(hidden, required):
        for demand in _demands_of(path, function, added, known):
            demands.setdefault(demand.wanted, demand)
    return tuple(_joined(demands.values()))


def _joined(demands: Iterable[Demand]) -> Iterator[Demand]:
    """Join demands of one comparison, such as the fixed parts of an f-string: they would suggest the same sentence twice."""
    groups: dict[tuple[Kind, str, str], list[Demand]] = {}
    for demand in demands:
        groups.setdefault((demand.kind, demand.place, demand.suggestion), []).append(demand)
    for group in groups.values():
        yield replace(group[0], wanted=" and ".join(demand.wanted for demand in group))


# --- what the tests demand ------------------------------------------------------------------------------------------


def _required_functions(hidden: Mapping[str, bytes], required: Iterable[str]) -> Iterator[tuple[str, ast.AST]]:
    names: dict[str, set[str]] = {}
    for test_id in required:
        path, _, rest = test_id.partition("::")
        names.setdefault(path, set()).add(rest.partition("[")[0].split("::")[-1])
    for path, source in hidden.items():
        tree = parse_or_none(source) if path in names else None
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names[path]:
                yield path, node


def _demands_of(path: str, function: ast.AST, added: _Constants, known: KnownTexts) -> Iterator[Demand]:
    parameters = _parameter_values(function)
    local = _local_names(function)
    for node in ast.walk(function):
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                yield from _raises_demands(
                    path, item.context_expr, _shown(node.body[0], local), parameters, added, known
                )
        elif isinstance(node, ast.Assert):
            for compare in ast.walk(node.test):
                if isinstance(compare, ast.Compare):
                    yield from _compare_demands(path, compare, local, added, known)
        elif isinstance(node, ast.Call) and _called(node) in _COMPARISONS and len(node.args) > 1:
            compare = ast.Compare(node.args[0], [_COMPARISONS[_called(node)]()], [node.args[1]])
            yield from _compare_demands(path, compare, local, added, known)
        elif isinstance(node, ast.Call) and _called(node).startswith("assert") and _called(node) not in _RAISES:
            for argument in node.args:
                yield from _constant_demands(path, argument, f"`{_shown(node)}` holds.", added, known)
        elif isinstance(node, ast.Call) and _called(node) in _RAISES and len(node.args) > 1 + (_called(node) in _REGEX):
            called = node.args[1 + (_called(node) in _REGEX)]  # assertRaises(Error, function, …)
            yield from _raises_demands(path, node, f"{_shown(called, local)}(…)", parameters, added, known)
    yield from _used_constants(path, function, added, known)


_Parameters = Mapping[str, list[ast.expr]]


def _parameter_values(function: ast.AST) -> _Parameters:
    """Return the values that `pytest.mark.parametrize` gives to each argument of a test; none for other arguments."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    values: dict[str, list[ast.expr]] = {argument.arg: [] for argument in function.args.args}
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and _called(decorator) == "parametrize" and len(decorator.args) > 1:
            names = [name.strip() for text in _constants(decorator.args[0]) for name in str(text).split(",")]
            for case in getattr(decorator.args[1], "elts", ()):
                given = case.args if isinstance(case, ast.Call) and _called(case) == "param" else [case]
                if len(names) > 1 and len(given) == 1:
                    given = getattr(given[0], "elts", [])
                for name, value in zip(names, given, strict=False):
                    values.setdefault(name, []).append(value)
    return values


def _raises_demands(
    path: str, node: ast.expr, body: str, parameters: _Parameters, added: _Constants, known: KnownTexts
) -> Iterator[Demand]:
    if not isinstance(node, ast.Call) or _called(node) not in _RAISES or not node.args:
        return
    place = f"{path}:{node.lineno}"
    named = _shown(node.args[0])
    verb = "warns with" if "arn" in _called(node) else "raises"
    for expected in parameters.get(named, node.args[:1]):
        for name in _exception_names(expected):
            if not _mentions(known.statement, name) and not _mentions(known.changed, name):
                yield Demand("exception", name, place, f"`{body}` {verb} `{_shown(expected)}`.")
    patterns = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
    patterns += node.args[1:2] if _called(node) in _REGEX else []
    for pattern in patterns:
        for text in _strings(pattern):
            plain = re.sub(r"\\(.)", r"\1", text).strip("^$")
            if added.gives(plain) and not _is_known(plain, added, known):
                message = f"`{body}` {verb} `{named}` with a message that matches {plain!r}."
                yield Demand("text", repr(plain), place, message)


def _compare_demands(
    path: str, compare: ast.Compare, local: _LocalNames, added: _Constants, known: KnownTexts
) -> Iterator[Demand]:
    kind: Kind = "text" if _MESSAGE.search(ast.unparse(compare)) else "value"
    for side in (compare.left, *compare.comparators):
        yield from _constant_demands(path, side, _comparison_sentence(compare, side, local), added, known, kind)


def _constant_demands(
    path: str, node: ast.expr, suggestion: str, added: _Constants, known: KnownTexts, kind: Kind = "value"
) -> Iterator[Demand]:
    """Yield the demands of an operand that is a constant, or a list, tuple, set or dict of constants."""
    place = f"{path}:{node.lineno}"
    for text in _strings(node):
        if added.gives(text) and not _is_known(text, added, known):
            yield Demand(kind, repr(text[:_SHOWN]), place, suggestion)
    for number in _numbers(node):
        if number in added.numbers and not _mentions(known.statement + known.base, number):
            yield Demand("value", number, place, suggestion)


def _used_constants(path: str, function: ast.AST, added: _Constants, known: KnownTexts) -> Iterator[Demand]:
    """Yield texts that a test uses in any way, for instance as an argument or a parameter, exactly as the fix adds them."""
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in added.texts:
            wanted = repr(node.value[:_SHOWN])
            if not _is_known(node.value, added, known):
                yield Demand("value", wanted, f"{path}:{node.lineno}", _support_sentence(wanted))


_OPTION = re.compile(r"'--?\w[\w-]*'")


def _support_sentence(wanted: str) -> str:
    """Return a sentence about a text of which only the use is known."""
    return (
        f"There is a command line option {wanted}."
        if _OPTION.fullmatch(wanted)
        else f"The value {wanted} is supported."
    )


_VERBS = {ast.Eq: "is", ast.NotEq: "is not", ast.In: "contains", ast.NotIn: "does not contain"}
_SUBJECTS = (
    (re.compile(r"\b(err|stderr)\b"), "The standard error"),
    (re.compile(r"\b(out|stdout|output)\b"), "The output"),
    (re.compile(r"\bcaplog\b"), "The log"),
    (re.compile(r"\bstr\(|\.(value|args|message)\b"), "The message of the error"),
)
"""Names for what tests read from their fixtures, such as `captured.err`."""


def _comparison_sentence(compare: ast.Compare, constant: ast.expr, local: _LocalNames) -> str:
    """Return a sentence about a comparison with a constant. Names that only the test knows are avoided where possible."""
    text = _shown(compare, local)
    subject = next((words for pattern, words in _SUBJECTS if pattern.search(text)), None)
    operator = type(compare.ops[0])
    listed = operator in (ast.In, ast.NotIn) and constant is not compare.left  # `err in ["a", "b"]`
    simple = len(compare.ops) == 1 and operator in _VERBS and not listed
    if subject is None or not simple or not local.unknown_in(compare):
        return f"`{text}` holds."
    return f"{subject} {_VERBS[operator]} {_shown(constant)}."


def _is_known(text: str, added: _Constants, known: KnownTexts) -> bool:
    """Return whether a solver can read a text, or every part of it that the fix adds."""
    return (
        _contains(known.statement, text)
        or _has_words(known.base, text)
        or all(_contains(known.statement, part) or _has_words(known.base, part) for part in added.parts_of(text))
    )


def _contains(statement: str, text: str) -> bool:
    return " ".join(text.split()) in " ".join(statement.split())


def _has_words(base: str, text: str) -> bool:
    """Return whether a text is in the base repository, not as a part of longer words: `2 weken` does not give `2 weke`."""
    return text in base and re.search(rf"(?<!\w(?=\w)){re.escape(text)}(?!(?<=\w)\w)", base) is not None


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) is not None


def _exception_names(node: ast.expr) -> list[str]:
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    names = [part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in nodes]
    return [name for name in names if name not in {"", "Exception", "BaseException", "AssertionError"}]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@dataclass(frozen=True, slots=True)
class _LocalNames:
    """The names that a test binds, and the values of those that it binds once, by an assignment."""

    names: frozenset[str] = frozenset()
    values: Mapping[str, ast.expr] = field(default_factory=dict)

    def unknown_in(self, node: ast.AST) -> bool:
        """Return whether an expression still contains names of the test when known values are in their place."""
        shown = _Shown(self.values).visit(copy.deepcopy(node))
        return any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(shown))


def _local_names(function: ast.AST) -> _LocalNames:
    parts = list(ast.walk(function))
    bound = [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
    bound += [part.arg for part in parts if isinstance(part, ast.arg)]
    values: dict[str, ast.expr] = {}
    for assign in sorted((part for part in parts if isinstance(part, ast.Assign)), key=lambda part: part.lineno):
        target, value = assign.targets[0], _Shown(values).visit(copy.deepcopy(assign.value))
        # A longer value would hide the rest of the sentence.
        if isinstance(target, ast.Name) and bound.count(target.id) == 1 and len(ast.unparse(value)) <= _SHOWN // 2:
            values[target.id] = value
    return _LocalNames(frozenset(bound), values)


def _shown(node: ast.AST, local: _LocalNames | None = None) -> str:
    """Return an expression in one line, with the values of local names. Values in f-strings are left out."""
    shown = _Shown(local.values if local else {}).visit(copy.deepcopy(node))
    text = " ".join(ast.unparse(shown).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


class _Shown(ast.NodeTransformer):
    """Replaces f-strings by texts with `…` in place of each value, and local names by their values."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
        return ast.Constant("".join(parts))


# --- constants ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Constants:
    """The constants in the lines that a fix adds."""

    texts: frozenset[str]
    numbers: frozenset[str]

    def gives(self, text: str) -> bool:
        return bool(self.parts_of(text))

    def parts_of(self, text: str) -> list[str]:
        """Return the added constants that a text consists of, or of which it is a part."""
        if len(text.strip()) < _MIN_TEXT:
            return []
        return [part for part in self.texts if part in text or text in part]


def _added_constants(patch: bytes) -> _Constants:
    texts: set[str] = set()
    numbers: set[str] = set()
    for block in _added_blocks(patch.decode("utf-8", "replace")):
        for match in _STRING.finditer(block):
            # The fixed parts of an f-string or of a format.
            parts = re.split(r"\{[^{}]*\}|%\(?\w*\)?[sdr]", match["text"])
            texts |= {_unescaped(part).strip() for part in parts if _is_telling(part)}
        numbers |= {number for number in _NUMBER.findall(_STRING.sub("''", block)) if _is_large(number)}
    return _Constants(frozenset(texts), frozenset(numbers))


_STRING = re.compile(
    r"""[rbfuRBFU]{0,2}(?P<quote>'''|\"\"\"|'|")(?P<text>(?:\\.|(?!(?P=quote)).)*?)(?P=quote)""", re.DOTALL
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def _added_blocks(patch: str) -> Iterator[str]:
    """Yield the runs of added lines of Python files, without comments."""
    block: list[str] = []
    python = False
    for line in [*patch.splitlines(), ""]:
        if line.startswith("+++ "):
            python = line.split("\t")[0].endswith(".py")
        elif line.startswith("+") and python:
            if not line[1:].lstrip().startswith("#"):
                block.append(line[1:])
            continue
        if block:
            yield "\n".join(block)
            block = []


def _is_telling(part: str) -> bool:
    return len(part.strip()) >= _MIN_TEXT and re.search(r"[A-Za-z]{3}", part) is not None


def _is_large(number: str) -> bool:
    return "." in number or int(number) > _SMALL


def _unescaped(text: str) -> str:
    return re.sub(r"\\(['\"\\])", r"\1", text)


def _strings(node: ast.expr) -> list[str]:
    constants = _constants(node)
    return [value for value in constants if isinstance(value, str) and len(value.strip()) >= _MIN_TEXT]


def _numbers(node: ast.expr) -> list[str]:
    numbers = [value for value in _constants(node) if isinstance(value, int | float) and not isinstance(value, bool)]
    return [repr(value) for value in numbers]


def _constants(node: ast.expr) -> list[object]:
    if isinstance(node, ast.Constant):
        return [node.value.decode("utf-8", "replace") if isinstance(node.value, bytes) else node.value]
    if isinstance(node, ast.Call):
        return _constants(node.args[0]) if _called(node) in {"escape", "compile"} and node.args else []
    if isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.Set | ast.Dict | ast.BinOp):
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return [value for child in children for value in _constants(child)]
    return []
