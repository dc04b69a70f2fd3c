"""Checks who calls the recorder: only pytest and its plugins may be on the stack above its entry points.

Code that finds an entry point can call it. A call counts only if every function on the stack existed before any code
under test, or comes unchanged from a file outside the workspace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import CodeType, FrameType

from .code_objects import code_digest, inner_code, source_digests

GUARD_FRAMES = 2
"""Guard functions between an entry point and the recorder."""
NO_ENTRY_POINT = "a report from outside the runner's entry points"


class CallerCheck:
    def __init__(self, start: CodeType, workspace: str, digests: Mapping[str, Collection[str]]) -> None:
        self._start = start
        self._workspace = workspace
        self._digests = dict(digests)
        """Digests of the functions in a file: of the base repository's conftests at first, of other files when
        needed.
        """
        self._entry_points: dict[int, CodeType] = {}
        self._guard_code: dict[int, CodeType] = {}
        self._trusted: dict[int, CodeType] = {}

    def trust(self, codes: Iterable[CodeType]) -> None:
        """Allow code objects, and those nested in them, on the stack."""
        for code in codes:
            self._trusted[id(code)] = code
            for inner in inner_code(code):
                self._trusted[id(inner)] = inner

    def is_trusted(self, code: CodeType) -> bool:
        """Return whether code existed before any code under test, or comes from the file that it names."""
        return id(code) in self._trusted or self._is_in_source(code)

    def set_entry_points(self, entry_points: Iterable[CodeType], guard: CodeType) -> None:
        """Set the plugin functions that pytest calls, and the guard between them and the recorder."""
        self._entry_points = {id(code): code for code in entry_points}
        self._guard_code = {id(inner): inner for inner in inner_code(guard)}

    def untrusted_callers(self, frame: FrameType | None) -> list[str]:
        """Return a finding if an untrusted function is on the stack.

        Findings name the file, so that those that the base repository causes as well can be recognised.
        """
        for _ in range(GUARD_FRAMES):
            frame = None if frame is None else frame.f_back
            if frame is None or id(frame.f_code) not in self._guard_code:
                return [NO_ENTRY_POINT]
        frame = frame.f_back if frame is not None else None
        if frame is None or id(frame.f_code) not in self._entry_points:
            return [NO_ENTRY_POINT]
        frame = frame.f_back
        while frame is not None:
            code = frame.f_code
            if code is self._start:
                return []
            if id(code) not in self._trusted and not self._is_in_source(code):
                return [f"a report called from {code.co_filename}"]
            frame = frame.f_back
        return ["a report from another thread"]

    def _is_in_source(self, code: CodeType) -> bool:
        file = code.co_filename
        if file not in self._digests:
            self._digests[file] = frozenset() if file.startswith(self._workspace) else source_digests(file)
        if code_digest(code) not in self._digests[file]:
            return False
        self._trusted[id(code)] = code
        return True
