r"""Queries that are plain text, or nearly: found on the host, in a time that only the length of the text decides.

Starting ripgrep costs more than looking through a small project. Most queries are words, and words need no engine for regular
expressions: alternatives of literal pieces with `.*` between them, `^`, `$` and `\b`. What is understood here means exactly what
it means to ripgrep; everything else, and every doubt, is left to it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_META = frozenset("\\.+*?()|[]{}^$")
_ESCAPED = frozenset("\\.+*?()|[]{}^$#&-~")
"""Exactly these may follow a backslash to stand for themselves, in every version of ripgrep."""
MAX_ALTERNATIVES = 8
MAX_QUERY = 200
MAX_TRIED = 20_000
"""Lines, and places on them, that one search looks at before the work is left to a program that can be stopped."""
_WORD = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


class Doubt(Exception):
    """What this text comes to is not certain here, or takes too long to find out."""


class Effort:
    """What one search may still look at."""

    def __init__(self, left: int = MAX_TRIED) -> None:
        self._left = left

    def spend(self) -> None:
        """
        Raises:
            Doubt: nothing is left.
        """
        self._left -= 1
        if self._left < 0:
            raise Doubt


@dataclass(frozen=True, slots=True)
class Piece:
    """A literal, and whether a word must begin or end at its ends."""

    text: bytes
    boundary_before: bool = False
    boundary_after: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """Pieces in this order on one line, with anything between them. `starts`, `ends`: at the start, at the end of the line."""

    pieces: tuple[Piece, ...]
    starts: bool = False
    ends: bool = False

    def on(self, line: bytes, effort: Effort) -> bool:
        """
        Raises:
            Doubt.
        """
        at = 0
        for number, piece in enumerate(self.pieces):
            start = self._place(number, line, at, effort)
            if start is None:
                return False
            if number and not _is_text(line[at:start]):
                raise Doubt  # what is no UTF-8 matches no dot: another place might do
            at = start + len(piece.text)
        return True

    def _place(self, number: int, line: bytes, at: int, effort: Effort) -> int | None:
        """The first place of a piece that fits: the one that leaves most room for what follows."""
        piece, first, last = self.pieces[number], number == 0, number == len(self.pieces) - 1
        candidates: Iterator[int]
        if last and self.ends:
            end = len(line) - len(piece.text)
            fits = line.endswith(piece.text) and end >= at and (end == 0 or not (first and self.starts))
            candidates = iter((end,) if fits else ())
        elif first and self.starts:
            candidates = iter((0,) if line.startswith(piece.text) else ())
        else:
            candidates = _places(piece.text, line, at)
        for start in candidates:
            effort.spend()
            if _bounded(piece, line, start):
                return start
        return None


def understood(query: str) -> tuple[Alternative, ...] | None:
    """The query, if it is of the kind that can be looked for here."""
    if len(query) > MAX_QUERY:
        return None
    alternatives: list[Alternative] = []
    for text in _split(query):
        found = _alternative(text)
        if found is None:
            return None
        alternatives.append(found)
    return tuple(alternatives) if len(alternatives) <= MAX_ALTERNATIVES else None


def lines_of(content: bytes, query: Sequence[Alternative], effort: Effort) -> Iterator[tuple[int, bytes]]:
    """Number and text of every line that matches.

    Raises:
        Doubt: ripgrep must be asked.
    """
    number, counted, binary = 1, 0, b"\0" in content
    starts = heapq.merge(*(_line_starts(content, one.pieces[0].text) for one in query))
    for start, _ in itertools.groupby(starts):
        effort.spend()
        if binary:
            raise Doubt  # ripgrep decides by more than one NUL whether a file is binary
        number += content.count(b"\n", counted, start)
        counted = start
        end = content.find(b"\n", start)
        line = content[start : len(content) if end < 0 else end]
        if any(one.on(line, effort) for one in query):
            yield number, line


def _line_starts(content: bytes, text: bytes) -> Iterator[int]:
    """Where lines begin that hold a text; each once."""
    at = content.find(text)
    while at >= 0:
        yield content.rfind(b"\n", 0, at) + 1
        end = content.find(b"\n", at)
        if end < 0:
            return
        at = content.find(text, end + 1)


def _places(text: bytes, line: bytes, at: int) -> Iterator[int]:
    found = line.find(text, at)
    while found >= 0:
        yield found
        found = line.find(text, found + 1)


def _bounded(piece: Piece, line: bytes, start: int) -> bool:
    end = start + len(piece.text)
    return (not piece.boundary_before or _is_boundary(line, start)) and (
        not piece.boundary_after or _is_boundary(line, end)
    )


def _is_boundary(line: bytes, at: int) -> bool:
    sides = [line[at - 1] if at else 0, line[at] if at < len(line) else 0]
    if max(sides) > 127:
        raise Doubt  # words of other scripts
    return (sides[0] in _WORD) != (sides[1] in _WORD)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _split(query: str) -> list[str]:
    """At every `|` that is not escaped."""
    parts, escaped = [""], False
    for char in query:
        if char == "|" and not escaped:
            parts.append("")
            continue
        parts[-1] += char
        escaped = char == "\\" and not escaped
    return parts


def _alternative(text: str) -> Alternative | None:
    starts, ends = text.startswith("^"), text.endswith("$") and not text.endswith("\\$")
    inner = text[starts : len(text) - ends]
    pieces = [_piece(part) for part in inner.split(".*")] if "\\.*" not in inner else [None]
    if any(piece is None for piece in pieces):
        return None
    return Alternative(tuple(piece for piece in pieces if piece is not None), starts, ends)


def _piece(text: str) -> Piece | None:
    """None for what is no literal; and for nothing at all: then every line may match."""
    before, after = text.startswith("\\b"), len(text) > 2 and text.endswith("\\b") and not text.endswith("\\\\b")
    inner = text[2 if before else 0 : len(text) - (2 if after else 0)]
    literal, escaped = "", False
    for char in inner:
        if escaped:
            if char not in _ESCAPED:
                return None
            literal, escaped = literal + char, False
        elif char == "\\":
            escaped = True
        elif char in _META:
            return None
        else:
            literal += char
    return None if escaped or not literal else Piece(literal.encode(), before, after)
