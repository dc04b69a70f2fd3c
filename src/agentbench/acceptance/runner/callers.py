"""Who is calling: between the start of the runner and a door of ours there is the runner, its plugins, and nobody else.

Whoever finds a door can knock. What comes through it counts only if every function on the way to it was there before any
code under test, or is written just so in a file that is none of the workspace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import CodeType, FrameType

from .code_objects import code_digest, inner_code, written_code

NEAR = 2
"""Functions of ours between a door and what it leads to."""
NO_DOOR = "a report that came through no door"


class Callers:
    def __init__(self, start: CodeType, workspace: str, written: Mapping[str, Collection[str]]) -> None:
        self._start = start
        self._workspace = workspace
        self._written = dict(written)
        """Digests of the functions in a file: of the conftests of R at first, of others when they are asked for."""
        self._doors: dict[int, CodeType] = {}
        self._behind: dict[int, CodeType] = {}
        self._known: dict[int, CodeType] = {}

    def know(self, codes: Iterable[CodeType]) -> None:
        """Code that may stand on the way."""
        for code in codes:
            self._known[id(code)] = code
            for inner in inner_code(code):
                self._known[id(inner)] = inner

    def knows(self, code: CodeType) -> bool:
        """Whether code was there before any code under test, or stands in the file that it names."""
        return id(code) in self._known or self._is_written(code)

    def doors(self, doors: Iterable[CodeType], behind: CodeType) -> None:
        """Our own functions that the session calls, and the one whose inner functions stand between them and us."""
        self._doors = {id(door): door for door in doors}
        self._behind = {id(inner): inner for inner in inner_code(behind)}

    def strangers(self, frame: FrameType | None) -> list[str]:
        """Who has no business on the way here. Told by their file, so that what R does as well can be told apart."""
        for _ in range(NEAR):
            frame = None if frame is None else frame.f_back
            if frame is None or id(frame.f_code) not in self._behind:
                return [NO_DOOR]
        frame = frame.f_back if frame is not None else None
        if frame is None or id(frame.f_code) not in self._doors:
            return [NO_DOOR]
        frame = frame.f_back
        while frame is not None:
            code = frame.f_code
            if code is self._start:
                return []
            if id(code) not in self._known and not self._is_written(code):
                return [f"a report through {code.co_filename}"]
            frame = frame.f_back
        return ["a report of another thread"]

    def _is_written(self, code: CodeType) -> bool:
        file = code.co_filename
        if file not in self._written:
            self._written[file] = frozenset() if file.startswith(self._workspace) else written_code(file)
        if code_digest(code) not in self._written[file]:
            return False
        self._known[id(code)] = code
        return True
