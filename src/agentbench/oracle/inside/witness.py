"""Listens to what the interpreter itself reports about code of the workspace that reaches for the verdict.

Audit events are raised by the interpreter whatever name a function is called by, so that words put together at run time
show as well. Reported with the file and line of the code that did it: opening a file of the required tests or of the
runner, looking around in /proc, asking for callers' frames, searching the interpreter's memory.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

FRAMES = frozenset({"sys._getframe", "sys._current_frames"})
MEMORY = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.settrace", "sys.setprofile"})
LENT_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
"""Attributes that hand out a frame without a call that is reported."""
OPENING = frozenset({"open", "os.listdir", "os.scandir"})
MACHINE = frozenset({"ctypes.cdata", "ctypes.addressof", "ctypes.dlsym", "ctypes.dlsym/handle"})
"""Ways into the interpreter's own memory. Symbols count only when they are the interpreter's."""
SOURCE = {
    "linecache.py": frozenset({"getline", "getlines", "updatecache", "checkcache"}),
    "traceback.py": frozenset({"line", "lines", "extract_stack", "format_stack", "print_stack", "walk_stack"}),
}
"""Asked directly, these give the source of whoever is named or calls; formatters of errors come to it by other names."""
LIMIT = 100
"""Reports of each kind: who makes many of one kind does not hide another."""


class Witness:
    """An audit hook. Cheap for what it does not look at. It never calls anything of the code that it hears."""

    def __init__(
        self, send: Callable[..., None], job: Mapping[str, Any], kit: str, is_test: Callable[[str], bool]
    ) -> None:
        self._send = send
        self._workspace = job["workspace"].rstrip("/") + "/"
        self._written = frozenset(job["written"])
        """Files of the patch: whatever they are called, they are code under test."""
        self._library = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._guarded = frozenset(job["guarded"])
        self._names = frozenset(os.path.basename(path) for path in self._guarded)  # noqa: PTH119
        self._kit = kit.rstrip("/") + "/"
        self._looks_like_test = is_test
        self._lent: set[int] = set()
        self._seen: set[tuple[str, str, int]] = set()
        self._counts: dict[str, int] = {}
        self._busy = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPENING:
            what = self._opened(arguments[0] if arguments else None)
        elif event in FRAMES or event in MEMORY:
            what = event
        elif event == "object.__setattr__" and arguments[1:2] == ("__code__",):
            what = "set __code__"
        elif event == "object.__getattr__" and not self._busy:
            what = self._inspected(*arguments[:2])
        elif event in MACHINE:
            what = "ctypes" if not event.startswith("ctypes.dlsym") or _of_interpreter(arguments) else ""
        elif event == "subprocess.Popen":
            what = self._started(arguments[1] if len(arguments) > 1 else None)
        else:
            return
        if what and not self._busy and self._counts.get(what, 0) < LIMIT:
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
        text = _path(path)
        if text is None:
            return "" if type(path) in (int, bool, type(None)) else "open object"
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
        """Whether the running test passed its own file, or a folder of tests, to what it tests.

        Tests of readers and parsers do so.
        """
        wanted = os.path.abspath(_path(path) or "")  # noqa: PTH100
        entry: FrameType | None = None
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._workspace):
                if self._is_test(file[len(self._workspace) :]):
                    given: set[str] = set() if entry is None else _paths_given(entry)
                    return (file == wanted and wanted in given) or any(
                        self._is_test(one[len(self._workspace) :] + "/") and wanted.startswith(one + "/")
                        for one in given
                        if one.startswith(self._workspace)
                    )
                entry = frame
            frame = frame.f_back
        return False

    def _report(self, what: str, frame: FrameType | None) -> None:
        frame, helped = self._doer(frame, direct=not what.startswith(("open", "ctypes")))
        if frame is None:
            return
        what = f"{what} {helped}" if helped else what
        file = frame.f_code.co_filename
        if not file.startswith(self._workspace) or self._is_test(file[len(self._workspace) :]):
            return
        place = (what, file[len(self._workspace) :], frame.f_lineno)
        if place not in self._seen:
            self._seen.add(place)
            self._counts[what] = self._counts.get(what, 0) + 1
            self._send("seen", *place)

    def _is_test(self, path: str) -> bool:
        return path not in self._written and self._looks_like_test(path)

    def _doer(self, frame: FrameType | None, *, direct: bool) -> tuple[FrameType | None, str]:
        """The first frame that is not the standard library at work for somebody; whether it only wanted source lines.

        But for opened files, only what is done directly or through `inspect` counts: logging asks for frames all the
        time, and mocks are given code. Files are also opened by the runner, for whoever calls its loader.
        """
        helped = ""
        while frame is not None:
            file = frame.f_code.co_filename
            runner = not direct and "/_pytest/" in file
            if not file.startswith("<") and not runner and not self._is_library(file):
                return frame, helped
            if helped or file.endswith("/linecache.py"):
                # The outermost part of the library is what was asked for.
                asked = frame.f_code.co_name in SOURCE.get(file.rpartition("/")[2], ())
                helped = "line by line" if asked else "for a source line"
            if direct and not file.startswith("<") and not file.endswith("/inspect.py"):
                return None, helped
            frame = frame.f_back
        return None, helped

    def _is_library(self, file: str) -> bool:
        """Of the standard library, not of what is installed beside it."""
        return file.startswith(self._library) and "/site-packages/" not in file and "/dist-packages/" not in file


def _paths_given(frame: FrameType) -> set[str]:
    """Arguments of a call that are paths, or lists of them."""
    code = frame.f_code
    values: list[Any] = [
        frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]
    values += [one for value in values if type(value) in (list, tuple) for one in value[:LIMIT]]
    return {os.path.abspath(text) for text in map(_path, values) if text is not None}  # noqa: PTH100


def _path(value: Any) -> str | None:  # noqa: ANN401
    """The text of a path, without calling anything that is not Python's own: another's code would run in here."""
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, bytes):
        return os.fsdecode(bytes(memoryview(value)))
    if kind in (pathlib.PosixPath, pathlib.PurePosixPath):
        return os.fsdecode(os.fspath(value))
    return None


def _of_interpreter(arguments: tuple[Any, ...]) -> bool:
    return any(type(one) is str and one.lstrip("_").startswith("Py") for one in arguments)
