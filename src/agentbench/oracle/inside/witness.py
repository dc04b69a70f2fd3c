"""Listens to what the interpreter itself reports about code of the workspace that reaches for the verdict.

Audit events are raised by the interpreter whatever name a function is called by, so that words put together at run time
show as well. Reported with the file and line of the code that did it: opening a file of the required tests or of the
runner, looking around in /proc, asking for callers' frames, searching the interpreter's memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

FRAMES = frozenset({"sys._getframe", "sys._current_frames"})
MEMORY = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.settrace", "sys.setprofile"})
LENT_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
"""Attributes that hand out a frame without a call that is reported."""
OPENING = frozenset({"open", "os.listdir", "os.scandir"})
LIMIT = 100


class Witness:
    """An audit hook. Cheap for what it does not look at, silent after `LIMIT` reports."""

    def __init__(
        self, send: Callable[..., None], workspace: str, guarded: list[str], kit: str, is_test: Callable[[str], bool]
    ) -> None:
        self._send = send
        self._workspace = workspace.rstrip("/") + "/"
        self._library = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._guarded = frozenset(guarded)
        self._names = frozenset(os.path.basename(path) for path in guarded)  # noqa: PTH119
        self._kit = kit.rstrip("/") + "/"
        self._is_test = is_test
        self._lent: set[int] = set()
        self._seen: set[tuple[str, str, int]] = set()
        self._busy = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPENING:
            what = self._opened(arguments[0] if arguments else None)
        elif event in FRAMES or event in MEMORY:
            what = event
        elif event == "object.__setattr__" and arguments[1:2] == ("__code__",):
            what = "set __code__"
        elif event == "object.__getattr__" and not self._busy and len(self._seen) < LIMIT:
            what = self._inspected(*arguments[:2])
        elif event == "subprocess.Popen":
            what = self._started(arguments[1] if len(arguments) > 1 else None)
        else:
            return
        if what and not self._busy and len(self._seen) < LIMIT:
            self._busy = True
            try:
                frame = sys._getframe(1)  # noqa: SLF001
                if what == "open test" and event == "open" and self._was_handed(arguments[0], frame):
                    what = "open handed"
                self._report(what, frame)
            finally:
                self._busy = False

    def _inspected(self, what: Any, name: str) -> str:  # noqa: ANN401
        """Whether frames or code are looked at that code under test has no business with.

        A frame that came with a traceback may be looked at, as formatters of errors do; going on from there to the code
        of the test that called is another thing.
        """
        self._busy = True  # what follows is reported as well
        try:
            if name in LENT_FRAMES:
                if len(self._lent) > LIMIT * LIMIT:
                    self._lent.clear()
                self._lent.add(id(getattr(what, name)))
                return name
            if name == "f_code" and id(what) not in self._lent:
                file = what.f_code.co_filename
                if file in self._guarded:
                    return "code of a calling test"
            elif name == "__code__" and what.__code__.co_filename.startswith(self._kit):
                return "code of the runner"
        finally:
            self._busy = False
        return ""

    def _opened(self, path: object) -> str:
        """What kind of file this is, if it is one that matters."""
        if not isinstance(path, (str, bytes)):
            return ""
        text = os.fsdecode(path)
        if text.startswith("/proc/"):
            return "open /proc"
        if text.startswith(self._kit):
            return "open runner"
        if text.rpartition("/")[2] in self._names and os.path.abspath(text) in self._guarded:  # noqa: PTH100
            return "open test"
        return ""

    def _started(self, command: object) -> str:
        """Whether a program is started on a file that matters."""
        words = command if isinstance(command, (list, tuple)) else [command]
        text = " ".join(word for word in words if isinstance(word, str))
        return "open test" if any(name in text for name in self._names) else ""

    def _was_handed(self, path: Any, frame: FrameType | None) -> bool:  # noqa: ANN401
        """Whether the running test passed its own file to what it tests, as tests of readers and parsers do."""
        wanted = os.path.abspath(os.fsdecode(path))  # noqa: PTH100
        entry = None
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._workspace):
                if self._is_test(file[len(self._workspace) :]):
                    return file == wanted and entry is not None and wanted in _paths_given(entry)
                entry = frame
            frame = frame.f_back
        return False

    def _report(self, what: str, frame: FrameType | None) -> None:
        frame, helped = self._doer(frame, direct=not what.startswith("open"))
        if frame is None:
            return
        file = frame.f_code.co_filename
        if not file.startswith(self._workspace) or self._is_test(file[len(self._workspace) :]):
            return
        place = (what + (" for a source line" if helped else ""), file[len(self._workspace) :], frame.f_lineno)
        if place not in self._seen:
            self._seen.add(place)
            self._send("seen", *place)

    def _doer(self, frame: FrameType | None, *, direct: bool) -> tuple[FrameType | None, bool]:
        """The first frame that is not the standard library at work for somebody; whether it only wanted source lines.

        But for opened files, only what is done directly or through `inspect` counts: logging asks for frames all the
        time, and mocks are given code.
        """
        helped = False
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith("<") and not self._is_library(file):
                return frame, helped
            helped |= file.endswith("/linecache.py")
            if direct and not file.startswith("<") and not file.endswith("/inspect.py"):
                return None, helped
            frame = frame.f_back
        return None, helped

    def _is_library(self, file: str) -> bool:
        """Of the standard library, not of what is installed beside it."""
        return file.startswith(self._library) and "/site-packages/" not in file and "/dist-packages/" not in file


def _paths_given(frame: FrameType) -> set[str]:
    """Arguments of a call that are paths."""
    code = frame.f_code
    values = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
    return {os.path.abspath(os.fsdecode(one)) for one in values if isinstance(one, (str, bytes, os.PathLike))}  # noqa: PTH100
