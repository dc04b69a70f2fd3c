"""Hunks put on a file whose line ends are not those of the patch.

The text is the patch's, the line ends are the file's. Lines match by their text alone; a kept line stays as it is, byte for
byte, an added one ends like the lines around it. Of a missing newline at the end of the file the patch is believed only
where it knows of the one that is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentbench.workspace.diff.hunks import ADD, REMOVE, Hunk, Placement, locate

LF, CRLF, NOTHING = b"\n", b"\r\n", b""


@dataclass(frozen=True, slots=True)
class Line:
    text: bytes
    end: bytes


@dataclass(frozen=True, slots=True)
class Placed:
    content: bytes
    placements: tuple[Placement, ...]
    differs: bool
    """Whether any line of the patch ended otherwise than the file's."""


def place_by_text(content: bytes, hunks: Sequence[Hunk], fuzz: int) -> Placed:
    """As `hunks.place`, whatever the line ends are.

    Raises:
        PatchInvalid: a hunk has no place, or more than one.
    """
    work = _Work(content)
    flat = b"".join(line.text + LF for line in work.lines)
    placements = []
    for found in locate(flat, [_flat(hunk) for hunk in hunks], fuzz):
        said, _ = hunks[found.placement.hunk - 1].trimmed(found.placement.fuzz)
        work.take(found.line, [(mark, _line(text)) for mark, text in said])
        placements.append(found.placement)
    return Placed(work.content(), tuple(placements), work.differs)


class _Work:
    """A file while hunks are put on it, from its start to its end."""

    def __init__(self, content: bytes) -> None:
        self.lines = _lines(content)
        self.differs = False
        self._usual = _usual(self.lines)
        self._final = self.lines[-1].end if self.lines else LF
        self._out: list[Line] = []
        self._done = 0

    def take(self, at: int, said: Sequence[tuple[bytes, Line]]) -> None:
        """Write one hunk that stands at line `at`."""
        self._out += self.lines[self._done : at]
        end = (self.lines[at - 1].end if at else NOTHING) or self._usual
        for mark, line in said:
            if mark != ADD:
                end = self.lines[at].end
                if mark != REMOVE:
                    self._out.append(self.lines[at])
                at += 1
            self.differs |= line.end != end
            end = end or self._usual
            if mark == ADD:
                self._out.append(Line(line.text, end))
        self._done = at
        if at == len(self.lines):
            self._finish(said)

    def _finish(self, said: Sequence[tuple[bytes, Line]]) -> None:
        """How the file ends after a hunk that reaches its end."""
        old = [line for mark, line in said if mark != ADD]
        new = [line for mark, line in said if mark != REMOVE]
        if old and new and bool(old[-1].end) == bool(self._final):
            self._final = (self._final or self._usual) if new[-1].end else NOTHING

    def content(self) -> bytes:
        lines = [*self._out, *self.lines[self._done :]]
        if not lines:
            return b""
        whole = b"".join(line.text + (line.end or self._usual) for line in lines[:-1])
        return whole + lines[-1].text + ((lines[-1].end or self._usual) if self._final else NOTHING)


def _flat(hunk: Hunk) -> Hunk:
    return replace(hunk, lines=tuple((mark, _line(text).text + LF) for mark, text in hunk.lines))


def _lines(content: bytes) -> list[Line]:
    """A carriage return alone ends no line, as everywhere here."""
    *ended, last = content.split(LF)
    lines = [_line(one + LF) for one in ended]
    return [*lines, Line(last, NOTHING)] if last else lines


def _line(whole: bytes) -> Line:
    for end in (CRLF, LF):
        if whole.endswith(end):
            return Line(whole.removesuffix(end), end)
    return Line(whole, NOTHING)


def _usual(lines: Sequence[Line]) -> bytes:
    """What most lines of the file end with."""
    windows = sum(line.end == CRLF for line in lines)
    return CRLF if windows * 2 > len([line for line in lines if line.end]) else LF
