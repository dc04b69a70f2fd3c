"""Read a YAML file into plain JSON values, with the line of every key.

Only a subset is accepted: one document, no tags, no merge keys, no numbers that YAML readers disagree about. Bytes,
nodes and depth are limited before anything is built, so an alias bomb is an error and not a hang.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

import yaml

from agentbench.contract.problem import InvalidFileError, KeyPath, Problem, dotted
from agentbench.core.dataclass import dataclass

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"

MAX_BYTES = 4 * 1024 * 1024
MAX_NODES = 200_000
MAX_DEPTH = 32
MAX_INTEGER = 2**53 - 1
"""JSON readers disagree about larger numbers."""

_PARSER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_AMBIGUOUS = re.compile(
    r"[-+]?(0[0-9_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*_[0-9_.]*)|[-+]?\.(inf|Inf|INF|nan|NaN|NAN)"
)
"""Octal, hexadecimal, binary, underscores, infinities: numbers to some YAML readers, text to others."""


@dataclass(frozen=True, slots=True)
class Document:
    """A mapping read from a file. `lines` has the line of every key and list item; `plain` the unquoted source text."""

    file: str
    text: str
    value: dict[str, Value]
    lines: Mapping[KeyPath, int]
    plain: Mapping[KeyPath, str]
    problems: tuple[Problem, ...] = ()
    """YAML problems that did not stop the reader: duplicate keys, ambiguous numbers, merge keys."""

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest parent that exists."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return line
        return self.lines.get((), 1)

    def problem(self, path: KeyPath, message: str) -> Problem:
        return Problem(self.file, self.line(path), dotted(path), message)

    def at(self, path: KeyPath) -> Value:
        """Return the value at a path, or None if there is none."""
        return descend(self.value, path)


def descend(value: Value, path: KeyPath) -> Value:
    """Return the value at a path below `value`, or None if there is none."""
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


class _Unreadable(Exception):
    """The document cannot be read beyond this line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


def read_document(path: Path, shown: str | None = None) -> Document:
    """Read a file that must hold one YAML mapping.

    Raises:
        ContractError: the file cannot be read or is not one YAML mapping; with the line.
    """
    file = shown if shown is not None else str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidFileError(file, [Problem(file, 0, "", "expected a regular file")])
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidFileError(file, [Problem(file, 0, "", f"cannot read: {reason}")]) from None
    return parse_document(data, file)


def parse_document(data: bytes, file: str) -> Document:
    """Parse bytes that must hold one YAML mapping.

    Raises:
        ContractError: they do not.
    """
    if len(data) > MAX_BYTES:
        raise InvalidFileError(file, [Problem(file, 0, "", f"larger than {MAX_BYTES // 1024**2} MiB")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidFileError(file, [Problem(file, line, "", "not UTF-8 text; save the file as UTF-8")]) from None
    try:
        node = _compose(text)
    except _Unreadable as error:
        raise InvalidFileError(file, [Problem(file, error.line, "", error.message)]) from None
    if node is None:
        raise InvalidFileError(file, [Problem(file, 1, "", "empty file; expected a mapping of keys to values")])
    if node.pairs is None:
        raise InvalidFileError(
            file, [Problem(file, node.line, "", "expected a mapping of keys to values at the top level")]
        )
    builder = _Builder(file)
    value = builder.build(node, ())
    if builder.full or not isinstance(value, dict):
        raise InvalidFileError(file, builder.problems)
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
                    raise _Unreadable(_line(event), "expected one YAML document; a second one starts here")
                root = composer.node(next(events), events, 0)
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise _Unreadable(line, f"invalid YAML: {str(error).splitlines()[0]}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        # The parsers let these through for odd escapes and version directives.
        raise _Unreadable(1, f"invalid YAML: {type(error).__name__}") from None
    return root


def _syntax(error: yaml.MarkedYAMLError, text: str) -> _Unreadable:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    problem = error.problem or error.context or "cannot be parsed"
    if mark and "\t" in "".join(text.splitlines()[mark.line : mark.line + 1])[: mark.column + 1]:
        return _Unreadable(line, "invalid YAML: tab used for indentation; use spaces")
    context = f" ({error.context})" if error.context and error.context != problem else ""
    return _Unreadable(line, f"invalid YAML: {problem}{context}")


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 1


class _Composer:
    """Build nodes from parse events. Aliases share nodes, so memory is bounded by the file size."""

    def __init__(self) -> None:
        self.anchors: dict[str, _Node] = {}
        self.count = 0

    def node(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> _Node:
        line = _line(event)
        self.count += 1
        if self.count > MAX_NODES:
            raise _Unreadable(line, f"more than {MAX_NODES:,} values")
        if depth > MAX_DEPTH:
            raise _Unreadable(line, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise _Unreadable(line, f"alias *{event.anchor} has no anchor before it")
            return self.anchors[event.anchor]
        tag, anchor = getattr(event, "tag", None), getattr(event, "anchor", None)
        if tag is not None:
            raise _Unreadable(line, f"tags such as {tag} are not supported; write the plain value")
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

    def report(self, line: int, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(self.file, line, dotted(path), message))

    def build(self, node: _Node, path: KeyPath) -> Value:
        self.count += 1
        if self.full:
            return None
        if self.count > MAX_NODES:
            self.full = True
            self.report(node.line, path, f"aliases expand to more than {MAX_NODES:,} values")
            return None
        if len(path) > MAX_DEPTH:
            self.report(node.line, path, f"nested deeper than {MAX_DEPTH} levels (an alias inside itself?)")
            return None
        self.lines.setdefault(path, node.line)
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        if node.items is not None:
            return [self.build(item, (*path, index)) for index, item in enumerate(node.items)]
        return self._scalar(node, path)

    def _mapping(self, pairs: list[tuple[_Node, _Node]], path: KeyPath) -> Value:
        mapping: dict[str, Value] = {}
        for key, value in pairs:
            if key.scalar is None:
                self.report(key.line, path, "a key must be text, not a list or mapping")
                continue
            if key.scalar == "<<" and not key.quoted:
                self.report(key.line, path, "merge keys (<<) are not supported; write the keys out")
                continue
            name = self._text(key, path)
            key_path = (*path, name)
            if name in mapping:
                self.report(key.line, key_path, f"duplicate key; first on line {self.lines[key_path]}")
                continue
            self.lines[key_path] = key.line
            mapping[name] = self.build(value, key_path)
        return mapping

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
            self.report(node.line, path, f'{_short(text)} is too large for a number; if it is text, quote it: "…"')
        elif _FLOAT.fullmatch(text):
            if math.isfinite(real := float(text)):
                return real
            self.report(node.line, path, f'{_short(text)} is too large for a number; if it is text, quote it: "…"')
        elif _AMBIGUOUS.fullmatch(text):
            message = f"{_short(text)} is a number to some YAML readers and text to others; "
            self.report(node.line, path, message + "write a decimal number, or quote it as text")
        return text

    def _text(self, node: _Node, path: KeyPath) -> str:
        text = node.scalar or ""
        if "\0" in text:
            self.report(node.line, path, "contains a NUL character")
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            self.report(node.line, path, "contains half of a surrogate pair")
            return text.encode("utf-8", "replace").decode()
        return text


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:20] + "…"
