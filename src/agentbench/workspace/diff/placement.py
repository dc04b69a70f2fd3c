"""Finds the place of hunks in a file and applies them there.

`place_hunks` compares lines byte by byte. `place_hunks_by_text` ignores line endings: the text comes from the patch,
the line endings from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.file_patch import ADD, REMOVE, Hunk

_LF, _CRLF, _NO_ENDING = b"\n", b"\r\n", b""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a hunk was applied. `line` counts from 1; `offset` is the distance from the line that the patch gives."""

    hunk: int
    line: int
    offset: int
    fuzz: int


@dataclass(frozen=True, slots=True)
class _LocatedHunk:
    """A hunk and its place: `start` is a byte offset, `line` counts from 0, `lines` are the lines left after fuzz."""

    start: int
    line: int
    lines: tuple[tuple[bytes, bytes], ...]
    placement: Placement


def place_hunks(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> tuple[bytes, tuple[Placement, ...]]:
    """Return the content with all hunks applied, and where they were applied.

    Raises:
        PatchInvalid: a hunk fits nowhere, or in more than one place.
    """
    parts: list[bytes] = []
    placements: list[Placement] = []
    cursor = 0
    for located in _locate(content, hunks, fuzz):
        start, name = located.start, _name(located.placement.hunk, hunks[located.placement.hunk - 1])
        new = b"".join(text for mark, text in located.lines if mark != REMOVE)
        end = start + sum(len(text) for mark, text in located.lines if mark != ADD)
        if new and not new.endswith(b"\n") and end != len(content):
            raise PatchInvalid(f"{name} ends without a newline inside the file")
        if new and start and content[start - 1] != 10:
            raise PatchInvalid(f"{name} adds lines after a last line without a newline")
        parts += (content[cursor:start], new)
        placements.append(located.placement)
        cursor = end
    parts.append(content[cursor:])
    return b"".join(parts), tuple(placements)


def _name(number: int, hunk: Hunk) -> str:
    return f"hunk {number} (line {hunk.patch_line} of the patch)"


def _locate(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> Iterator[_LocatedHunk]:
    """Find the place of each hunk.

    A hunk belongs at the line it gives, shifted like the hunk before it. If its lines are not there, it belongs at the
    only other place after the previous hunk where they are. Several such places are an error: choosing one is a guess.

    Raises:
        PatchInvalid: a hunk fits nowhere, or in more than one place.
    """
    cursor = line = shift = 0
    for number, hunk in enumerate(hunks, 1):
        place = _find(content, hunk, (cursor, line), shift, fuzz)
        if place is None:
            hint = _line_ending_hint(content, hunk)
            raise PatchInvalid(f"{_name(number, hunk)} does not match the file{hint}")
        start, first_line, used = place
        lines, lead = hunk.trimmed(used)
        shift = first_line - lead - hunk.position
        yield _LocatedHunk(start, first_line, lines, Placement(number, first_line - lead + 1, shift, used))
        old = b"".join(text for mark, text in lines if mark != ADD)
        cursor, line = start + len(old), first_line + old.count(b"\n")


def _line_ending_hint(content: bytes, hunk: Hunk) -> str:
    """Explain a mismatch that is invisible in most editors: different line endings."""
    old = b"".join(text for mark, text in hunk.lines if mark != ADD)
    patch_has_crlf, file_has_crlf = b"\r\n" in old, b"\r\n" in content
    if patch_has_crlf == file_has_crlf or not old:
        return ""
    return f"; {'the patch' if patch_has_crlf else 'the file'} has CRLF line endings, the other has LF"


def _find(content: bytes, hunk: Hunk, cursor: tuple[int, int], shift: int, fuzz: int) -> tuple[int, int, int] | None:
    """Return (byte offset, line index, fuzz used) of the place of a hunk, or None."""
    tried: set[int] = set()
    for used in range(fuzz + 1):
        lines, lead = hunk.trimmed(used)
        if len(lines) in tried:
            continue
        tried.add(len(lines))
        old = b"".join(text for mark, text in lines if mark != ADD)
        if used and not old:
            continue  # no line of the file is left to compare, so any place would be a guess
        expected = hunk.position + lead + shift
        start = _offset(content, expected, *cursor)
        if start is not None and _matches(content, old, start):
            return start, expected, used
        if not old:
            return None  # a hunk without old lines can only be placed by its line number
        start = _search(content, old, cursor[0])
        if start is None:
            continue
        if _search(content, old, start + 1) is not None:
            raise PatchInvalid(
                f"the lines of the hunk at line {hunk.patch_line} of the patch are not at line {expected + 1} "
                "and occur more than once elsewhere",
                remedy="add context lines or correct the line number",
            )
        return start, content.count(b"\n", 0, start), used
    return None


def _offset(content: bytes, wanted: int, offset: int, line: int) -> int | None:
    """Return the byte offset of line `wanted`, counting from `line` at `offset`. None if it is earlier or missing."""
    if wanted < line:
        return None
    while line < wanted:
        newline = content.find(b"\n", offset)
        if newline < 0:
            # A last line without a newline counts as a line: the position after it is the end of the file.
            return len(content) if line + 1 == wanted and offset < len(content) else None
        offset = newline + 1
        line += 1
    return offset


def _matches(content: bytes, old: bytes, start: int) -> bool:
    if not content.startswith(old, start):
        return False
    return not old or old.endswith(b"\n") or start + len(old) == len(content)


def _search(content: bytes, old: bytes, start: int) -> int | None:
    """Return the first offset at or after `start` where `old` matches whole lines. Always takes linear time."""
    if not old.endswith(b"\n"):  # only the last line of a file has no newline
        place = len(content) - len(old)
        fits = place >= start and content.endswith(old) and (place == 0 or content[place - 1] == 10)
        return place if fits else None
    if (start == 0 or content[start - 1] == 10) and content.startswith(old, start):
        return start
    newline = content.find(b"\n" + old, max(start - 1, 0))
    return newline + 1 if newline >= 0 else None


@dataclass(frozen=True, slots=True)
class _Line:
    text: bytes
    ending: bytes


def place_hunks_by_text(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> tuple[bytes, tuple[Placement, ...], bool]:
    """Like `place_hunks`, but ignore line endings. Also return whether the patch and the file have different ones.

    Context lines stay as they are in the file, byte for byte. Added lines get the ending of the lines around them. The
    patch changes the newline at the end of the file only if it knows the present state.

    Raises:
        PatchInvalid: a hunk fits nowhere, or in more than one place.
    """
    merge = _TextMerge(content)
    normalized = b"".join(line.text + _LF for line in merge.lines)
    placements = []
    for located in _locate(normalized, [_with_lf(hunk) for hunk in hunks], fuzz):
        lines, _ = hunks[located.placement.hunk - 1].trimmed(located.placement.fuzz)
        merge.apply(located.line, [(mark, _split_ending(text)) for mark, text in lines])
        placements.append(located.placement)
    return merge.content(), tuple(placements), merge.endings_differ


class _TextMerge:
    """A file to which hunks are applied from start to end."""

    def __init__(self, content: bytes) -> None:
        self.lines = _split_lines(content)
        self.endings_differ = False
        self._usual = _usual_ending(self.lines)
        self._final = self.lines[-1].ending if self.lines else _LF
        self._merged: list[_Line] = []
        self._done = 0

    def apply(self, start: int, hunk: Sequence[tuple[bytes, _Line]]) -> None:
        """Apply one hunk at line `start`."""
        self._merged += self.lines[self._done : start]
        ending = (self.lines[start - 1].ending if start else _NO_ENDING) or self._usual
        position = start
        for mark, line in hunk:
            if mark != ADD:
                ending = self.lines[position].ending
                if mark != REMOVE:
                    self._merged.append(self.lines[position])
                position += 1
            self.endings_differ |= line.ending != ending
            ending = ending or self._usual
            if mark == ADD:
                self._merged.append(_Line(line.text, ending))
        self._done = position
        if position == len(self.lines):
            self._set_final_ending(hunk)

    def _set_final_ending(self, hunk: Sequence[tuple[bytes, _Line]]) -> None:
        """Decide how the file ends after a hunk that reaches its end."""
        old = [line for mark, line in hunk if mark != ADD]
        new = [line for mark, line in hunk if mark != REMOVE]
        if old and new and bool(old[-1].ending) == bool(self._final):
            self._final = (self._final or self._usual) if new[-1].ending else _NO_ENDING

    def content(self) -> bytes:
        lines = [*self._merged, *self.lines[self._done :]]
        if not lines:
            return b""
        start = b"".join(line.text + (line.ending or self._usual) for line in lines[:-1])
        return start + lines[-1].text + ((lines[-1].ending or self._usual) if self._final else _NO_ENDING)


def _with_lf(hunk: Hunk) -> Hunk:
    return replace(hunk, lines=tuple((mark, _split_ending(text).text + _LF) for mark, text in hunk.lines))


def _split_lines(content: bytes) -> list[_Line]:
    """A carriage return alone does not end a line."""
    *ended, last = content.split(_LF)
    lines = [_split_ending(line + _LF) for line in ended]
    return [*lines, _Line(last, _NO_ENDING)] if last else lines


def _split_ending(line: bytes) -> _Line:
    for ending in (_CRLF, _LF):
        if line.endswith(ending):
            return _Line(line.removesuffix(ending), ending)
    return _Line(line, _NO_ENDING)


def _usual_ending(lines: Sequence[_Line]) -> bytes:
    """Return the ending that most lines of the file have."""
    crlf = sum(line.ending == _CRLF for line in lines)
    return _CRLF if crlf * 2 > len([line for line in lines if line.ending]) else _LF
