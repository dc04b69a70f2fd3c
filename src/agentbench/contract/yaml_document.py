"""A YAML file as plain JSON values, with the line of every key.

Reads a subset on purpose: one document, no tags, no merge keys, no numbers that YAML readers disagree about. What is
read is bounded in bytes, nodes and depth before anything is built, so an alias bomb is a problem and not a hang.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import yaml

from agentbench.contract.problem import KeyPath, Problem, dotted, refuse

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 32
MAX_INTEGER = 2**53 - 1
"""Beyond this, JSON readers disagree about the number."""

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_UNCLEAR = re.compile(r"[-+]?(0[0-9_]+|0[xob][0-9a-fA-F_]+|[0-9][0-9_]*_[0-9_.]*)|[-+]?\.(inf|Inf|INF|nan|NaN|NAN)")
"""Octal, hexadecimal, binary, underscores, infinities: numbers to some readers and text to others."""


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping read from a file. `lines` has the line of every key and list item; `plain` the unquoted source text."""

    file: str
    text: str
    value: dict[str, Value]
    lines: Mapping[KeyPath, int]
    plain: Mapping[KeyPath, str]
    problems: tuple[Problem, ...] = ()
    """What is wrong with it as YAML although it could be read: twice the same key, unclear numbers, merge keys."""

    def line(self, path: KeyPath) -> int:
        """The line of a key, or of the nearest key above it that exists."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return self.lines.get((), 1)

    def problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.file, self.line(path), dotted(path), message)

    def at(self, path: KeyPath) -> Value:
        """The value at a path; None when there is none."""
        return descend(self.value, path)


def descend(value: Value, path: KeyPath) -> Value:
    """The value at a path below `value`; None when there is none."""
    for part in path:
        if isinstance(value, dict) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


@dataclass(slots=True)
class _Node:
    line: int
    scalar: str | None = None
    quoted: bool = False
    items: list[_Node] | None = None
    pairs: list[tuple[_Node, _Node]] | None = None


class _Stop(Exception):
    """Nothing sensible can be read from here on."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read_document(path: Path, shown: str | None = None) -> Document:
    """Read a file that must hold one YAML mapping.

    Raises:
        ContractError: it cannot be read, or is not one; with the line where it stops being one.
    """
    file = shown if shown is not None else str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise refuse(file, [Problem(file, 0, "", "expected a regular file")])
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise refuse(file, [Problem(file, 0, "", f"cannot be read: {reason}")]) from None
    return parse_document(data, file)


def parse_document(data: bytes, file: str) -> Document:
    """The mapping that `data` holds.

    Raises:
        ContractError: nothing can be read from it.
    """
    if len(data) > MAX_BYTES:
        raise refuse(file, [Problem(file, 0, "", f"is larger than {MAX_BYTES} bytes; a contract is not")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refuse(file, [Problem(file, line, "", "is not UTF-8 text; save it as UTF-8")]) from None
    try:
        node = _compose(text)
    except _Stop as stop:
        raise refuse(file, [Problem(file, stop.line, "", stop.message)]) from None
    if node is None:
        raise refuse(file, [Problem(file, 1, "", "is empty; expected a mapping of keys to values")])
    if node.pairs is None:
        raise refuse(file, [Problem(file, node.line, "", "expected a mapping of keys to values at the top")])
    builder = _Builder(file)
    value = builder.build(node, ())
    if builder.full or not isinstance(value, dict):
        raise refuse(file, builder.problems)
    return Document(file, text, value, builder.lines, builder.plain, tuple(builder.problems))


# --- from text to nodes ------------------------------------------------------------------------------------------


def _compose(text: str) -> _Node | None:
    composer = _Composer()
    root: _Node | None = None
    documents = 0
    try:
        for event in (events := yaml.parse(text, Loader=_PARSER)):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Stop(_line(event), "expected one YAML document; a second one starts here")
                root = composer.node(next(events), events, 0)
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise _Stop(line, f"is not valid YAML: {str(error).splitlines()[0]}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        # The parsers leak these for odd escapes and version directives.
        raise _Stop(1, f"is not valid YAML: {type(error).__name__}") from None
    return root


def _syntax(error: yaml.MarkedYAMLError, text: str) -> _Stop:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = error.problem or error.context or "cannot be parsed"
    if mark and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1])[: mark.column + 1]:
        return _Stop(line, "is not valid YAML: a tab is used for indentation; use spaces")
    context = f" ({error.context})" if error.context and error.context != problem else ""
    return _Stop(line, f"is not valid YAML: {problem}{context}")


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 1


class _Composer:
    """Nodes from parse events; aliases share nodes, so memory is bounded by the file."""

    def __init__(self) -> None:
        self.anchors: dict[str, _Node] = {}
        self.count = 0

    def node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> _Node:
        line = _line(event)
        self.count += 1
        if self.count > MAX_NODES:
            raise _Stop(line, f"holds more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise _Stop(line, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise _Stop(line, f"alias *{event.anchor} has no anchor before it")
            return self.anchors[event.anchor]
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if tag is not None:
            raise _Stop(line, f"tags such as {tag} are not read; write the plain value")
        node = _Node(line)
        if anchor is not None:
            self.anchors[anchor] = node
        if isinstance(event, yaml.ScalarEvent):
            node.scalar, node.quoted = event.value, bool(event.style)
        elif isinstance(event, yaml.SequenceStartEvent):
            node.items = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                node.items.append(self.node(item, events, depth + 1))
        else:
            node.pairs = []
            while not isinstance(item := next(events), yaml.MappingEndEvent):
                key = self.node(item, events, depth + 1)
                node.pairs.append((key, self.node(next(events), events, depth + 1)))
        return node


# --- from nodes to values ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Builder:
    file: str
    problems: list[Problem] = field(default_factory=list)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    plain: dict[KeyPath, str] = field(default_factory=dict)
    count: int = 0
    full: bool = False

    def complain(self, line: int, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(self.file, line, dotted(path), message))

    def build(self, node: _Node, path: KeyPath) -> Value:
        self.count += 1
        if self.full:
            return None
        if self.count > MAX_NODES:
            self.full = True
            self.complain(node.line, path, f"aliases expand to more than {MAX_NODES} values")
            return None
        if len(path) > MAX_DEPTH:
            self.complain(node.line, path, f"is nested deeper than {MAX_DEPTH} levels (an alias inside itself?)")
            return None
        self.lines.setdefault(path, node.line)
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        if node.items is not None:
            return [self.build(item, (*path, index)) for index, item in enumerate(node.items)]
        return self._scalar(node, path)

    def _mapping(self, pairs: list[tuple[_Node, _Node]], path: KeyPath) -> Value:
        found: dict[str, Value] = {}
        for key, value in pairs:
            if key.scalar is None:
                self.complain(key.line, path, "a key must be text, not a list or mapping")
                continue
            if key.scalar == "<<" and not key.quoted:
                self.complain(key.line, path, "merge keys (<<) are not read; write the keys out")
                continue
            name = self._text(key, path)
            here = (*path, name)
            if name in found:
                self.complain(key.line, here, f"is given twice; first on line {self.lines[here]}")
                continue
            self.lines[here] = key.line
            found[name] = self.build(value, here)
        return found

    def _scalar(self, node: _Node, path: KeyPath) -> Value:
        text = self._text(node, path)
        if node.quoted:
            return text
        self.plain[path] = text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _INTEGER.fullmatch(text):
            if len(text) < 20 and abs(number := int(text)) <= MAX_INTEGER:
                return number
            self.complain(node.line, path, f'{_short(text)} is too large for a number; if it is text, quote it: "…"')
        elif _FLOAT.fullmatch(text):
            if math.isfinite(real := float(text)):
                return real
            self.complain(node.line, path, f'{_short(text)} is too large for a number; if it is text, quote it: "…"')
        elif _UNCLEAR.fullmatch(text):
            message = f"{_short(text)} is a number to some YAML readers and text to others; "
            self.complain(node.line, path, message + "write a decimal number, or quote it as text")
        return text

    def _text(self, node: _Node, path: KeyPath) -> str:
        text = node.scalar or ""
        if "\0" in text:
            self.complain(node.line, path, "holds a NUL character")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            self.complain(node.line, path, "holds half of a surrogate pair, which is not text")
            return text.encode("utf-8", "replace").decode()
        return text


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
