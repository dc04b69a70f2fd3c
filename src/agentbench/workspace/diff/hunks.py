"""Hunks of a text diff, and finding their place in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentbench.core.errors import PatchInvalid

CONTEXT, ADD, REMOVE = b" ", b"+", b"-"


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. A line is (mark, text); the text ends in a newline unless the patch says it has none."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[tuple[bytes, bytes], ...]
    at: int
    """Line of the patch where it starts."""

    @property
    def position(self) -> int:
        """Number of lines of the file before the hunk. A hunk without old lines stands after the line it names."""
        return self.old_start - 1 if self.old_count else self.old_start

    def trimmed(self, fuzz: int) -> tuple[tuple[tuple[bytes, bytes], ...], int]:
        """The lines without up to `fuzz` context lines at each end, and how many were dropped in front."""
        lead = _leading(self.lines, fuzz)
        tail = _leading(self.lines[::-1], fuzz)
        if lead + tail >= len(self.lines):
            return self.lines, 0
        return self.lines[lead : len(self.lines) - tail], lead


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a hunk went: `line` counts from 1, `offset` is how far that is from where the patch said."""

    hunk: int
    line: int
    offset: int
    fuzz: int


def _leading(lines: Sequence[tuple[bytes, bytes]], most: int) -> int:
    count = 0
    while count < min(most, len(lines)) and lines[count][0] == CONTEXT:
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class Located:
    """A hunk and the place that was found for it: `start` in bytes, `line` counts from 0, `lines` are those that count."""

    start: int
    line: int
    lines: tuple[tuple[bytes, bytes], ...]
    placement: Placement


def place(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> tuple[bytes, tuple[Placement, ...]]:
    """The content with all hunks applied.

    Raises:
        PatchInvalid: a hunk has no place, or more than one.
    """
    parts: list[bytes] = []
    placements: list[Placement] = []
    cursor = 0
    for found in locate(content, hunks, fuzz):
        number, at, start = found.placement.hunk, hunks[found.placement.hunk - 1].at, found.start
        new = b"".join(text for mark, text in found.lines if mark != REMOVE)
        end = start + sum(len(text) for mark, text in found.lines if mark != ADD)
        if new and not new.endswith(b"\n") and end != len(content):
            raise PatchInvalid(f"hunk {number} (line {at} of the patch) ends without a newline inside the file")
        if new and start and content[start - 1] != 10:
            raise PatchInvalid(f"hunk {number} (line {at} of the patch) adds after a last line without newline")
        parts += (content[cursor:start], new)
        placements.append(found.placement)
        cursor = end
    parts.append(content[cursor:])
    return b"".join(parts), tuple(placements)


def locate(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> Iterator[Located]:
    """Where each hunk goes.

    A hunk goes where it says (moved by as much as the hunk before it was); if its lines are not there, to the one place
    after the previous hunk where they are. Several such places are refused: a guess is not an application.

    Raises:
        PatchInvalid: a hunk has no place, or more than one.
    """
    cursor = line = shift = 0
    for number, hunk in enumerate(hunks, 1):
        found = _find(content, hunk, (cursor, line), shift, fuzz)
        if found is None:
            why = _line_ends(content, hunk)
            raise PatchInvalid(f"hunk {number} (line {hunk.at} of the patch) does not match the file{why}")
        start, at_line, used = found
        lines, lead = hunk.trimmed(used)
        shift = at_line - lead - hunk.position
        yield Located(start, at_line, lines, Placement(number, at_line - lead + 1, shift, used))
        old = b"".join(text for mark, text in lines if mark != ADD)
        cursor, line = start + len(old), at_line + old.count(b"\n")


def _line_ends(content: bytes, hunk: Hunk) -> str:
    """What nobody sees who looks at both: that they end their lines in different ways."""
    lines, _ = hunk.trimmed(0)
    old = b"".join(text for mark, text in lines if mark != ADD)
    windows, of_file = b"\r\n" in old, b"\r\n" in content
    if windows == of_file or not old:
        return ""
    return f"; {'the patch' if windows else 'the file'} has CRLF line ends, {'the file' if windows else 'the patch'} has not"


def _find(content: bytes, hunk: Hunk, cursor: tuple[int, int], shift: int, fuzz: int) -> tuple[int, int, int] | None:
    """(byte offset, line index, fuzz used) of the place of a hunk."""
    tried: set[int] = set()
    for used in range(fuzz + 1):
        lines, lead = hunk.trimmed(used)
        if len(lines) in tried:
            continue
        tried.add(len(lines))
        old = b"".join(text for mark, text in lines if mark != ADD)
        if used and not old:
            continue  # with no line of the file left to stand on, its place would be a guess
        expected = hunk.position + lead + shift
        start = _offset(content, expected, *cursor)
        if start is not None and _matches(content, old, start):
            return start, expected, used
        if not old:
            return None  # nothing to look for: without context a hunk stands where it says or nowhere
        start = _search(content, old, cursor[0])
        if start is None:
            continue
        if _search(content, old, start + 1) is not None:
            raise PatchInvalid(
                f"the lines of the hunk at line {hunk.at} of the patch are not at line {expected + 1} and occur more than "
                "once elsewhere",
                remedy="give it more context or the right line number",
            )
        return start, content.count(b"\n", 0, start), used
    return None


def _offset(content: bytes, wanted: int, offset: int, line: int) -> int | None:
    """Byte offset of a line, counted on from a line whose offset is known; None if it is before it or does not exist."""
    if wanted < line:
        return None
    while line < wanted:
        newline = content.find(b"\n", offset)
        if newline < 0:
            # A last line without newline still counts as one: what follows it is the end of the file.
            return len(content) if line + 1 == wanted and offset < len(content) else None
        offset = newline + 1
        line += 1
    return offset


def _matches(content: bytes, old: bytes, start: int) -> bool:
    if not content.startswith(old, start):
        return False
    return not old or old.endswith(b"\n") or start + len(old) == len(content)


def _search(content: bytes, old: bytes, start: int) -> int | None:
    """First place at or after `start` where `old` stands on whole lines. One pass, whatever the content."""
    if not old.endswith(b"\n"):  # only the end of the file has a line without newline
        place = len(content) - len(old)
        fits = place >= start and content.endswith(old) and (place == 0 or content[place - 1] == 10)
        return place if fits else None
    if (start == 0 or content[start - 1] == 10) and content.startswith(old, start):
        return start
    found = content.find(b"\n" + old, max(start - 1, 0))
    return found + 1 if found >= 0 else None
