"""Listens to what the interpreter itself reports about code of the workspace that reaches for the verdict.

Audit events are raised by the interpreter whatever name a function is called by, so that words put together at run time
show as well. Reported with the file and line of the code that did it: opening a file of the required tests or of the
runner, looking around in /proc, asking for callers' frames, searching the interpreter's memory.
"""

from __future__ import annotations

import os
import pathlib
import posix
import stat
import sys
from _thread import get_ident
from collections.abc import Callable, Mapping
from types import CodeType, FrameType, MemberDescriptorType
from typing import Any

# Bound before any code under test, and the interpreter's own wherever something is called while it runs.
_status, _cwd, _frame, _decoded, _encoded, _pid = (
    posix.stat,
    posix.getcwd,
    sys._getframe,  # noqa: SLF001
    bytes.decode,
    str.encode,
    posix.getpid,
)
_PATHS = (pathlib.PosixPath, pathlib.PurePosixPath)
_CREATE, _DIRECTORY, _IS_DIRECTORY = os.O_CREAT, os.O_DIRECTORY, stat.S_IFDIR
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
OUTSIDE = 3
"""Functions of ours between the interpreter's call and what listens to it."""
FRAMES = frozenset({"sys._getframe", "sys._current_frames"})
MEMORY = frozenset(
    {
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
        *("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"),
    }
)
LENT_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
"""Attributes that hand out a frame without a call that is reported."""
OPENING = frozenset({"open", "os.listdir", "os.scandir"})
MACHINE = frozenset({"ctypes.cdata", "ctypes.dlsym", "ctypes.dlsym/handle"})
"""Ways into the interpreter's own memory. Symbols count only when they are the interpreter's."""
FORMATTERS = frozenset({"format_stack", "print_stack"})
"""These give text for people. Before any test runs there is nothing in it that a test asks for."""
SOURCE = {
    "linecache.py": frozenset({"getline", "getlines", "updatecache", "checkcache"}),
    "traceback.py": frozenset({"line", "lines", "extract_stack", "format_stack", "print_stack", "walk_stack"}),
}
"""Asked directly, these give the source of whoever is named or calls; formatters of errors come to it by other names."""
MOVING = frozenset({"os.rename", "os.remove", "os.truncate", "os.link", "os.symlink"})
"""What puts one file in the place of another without opening either."""
GRAVE = ("open", "change", "ctypes", "gc.", "set ", "sys.set", "sys.monitoring")
"""How kinds begin of which it is asked whether code is of the file that it names."""
GENERATED = ("<frozen ", "<doctest ")
"""Code of no file that is nobody's of the workspace."""
STARTING = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"})
EVENTS = frozenset(
    {*OPENING, *MOVING, *FRAMES, *MEMORY, *MACHINE, *STARTING, "object.__setattr__", "object.__getattr__"}
)
LIMIT = 100
"""Reports of each kind: who makes many of one kind does not hide another."""


def listening(look: Callable[..., bool], ours: Callable[[], bool]) -> Callable[[str, tuple[Any, ...]], None]:
    """An audit hook. Whoever interrupts it finds nothing but sealed functions and a list of names.

    `ours`: whether a function of ours is at work. The watch reads thousands of functions at each look, and every one of
    them is an event.
    """
    wanted = EVENTS

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event in wanted and not ours() and look(event, arguments):
            raise PermissionError(event)

    return heard


class Witness:
    """Hears what the interpreter reports. It never calls anything of the code that it hears."""

    def __init__(
        self,
        send: Callable[..., None],
        job: Mapping[str, Any],
        kit: str,
        is_test: Callable[[str], bool],
        wait: Callable[[], None],
        is_genuine: Callable[[CodeType], bool],
    ) -> None:
        """`is_genuine`: whether code stands in the file that it says it is of."""
        self._is_genuine = is_genuine
        self._installed = frozenset(job["pinned"]) if job["mode"] != "survey" else None
        """Packages of setup, which are no code under test; None: all that are installed."""
        self._send = send
        self._wait = wait
        self._pid = _pid()
        self._workspace = job["workspace"].rstrip("/") + "/"
        self._written = frozenset(job["written"])
        """Files of the patch: whatever they are called, they are code under test."""
        self._library = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._guarded = frozenset(job["guarded"])
        self._places = {place: path for path in self._guarded if (place := _place(path)) is not None}
        """The same by what they are on the disk, whatever way leads there."""
        self._names = frozenset(path.rpartition("/")[2] for path in self._guarded)
        self._kit = kit.rstrip("/") + "/"
        self._looks_like_test = is_test
        self._lent: set[int] = set()
        self._seen: set[tuple[str, str, int]] = set()
        self._counts: dict[str, int] = {}
        self.testing = False
        """Tests have been collected and are run from now on."""
        self._busy: set[int] = set()
        """Threads that are in here."""

    def begin(self) -> None:
        self.testing = True

    def hear(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Whether it must not be done."""
        me = get_ident()
        if me in self._busy:
            return False
        self._busy.add(me)  # what follows is reported as well
        try:
            what = self._kind(event, arguments)
            frame: FrameType | None = _frame(OUTSIDE + 1)
            touched = what.startswith(("open test", "open data ", "change test"))
            if touched and event not in STARTING and self._was_handed(arguments[0], frame):
                what, touched = "open handed", False
            if touched and _pid() != self._pid:
                # A forked copy cannot tell, so it cannot read either.
                return self._place_of(what, frame) is not None
            if what and self._counts.get(what, 0) < LIMIT:
                self._report(what, frame)
            if event == "sys._current_frames":
                self._wait()
            return False
        finally:
            self._busy.discard(me)

    def _kind(self, event: str, arguments: tuple[Any, ...]) -> str:
        if event in OPENING or event in MOVING:
            return self._opened(event, arguments) if event in OPENING else self._moved(arguments[:2])
        if event in FRAMES or event in MEMORY:
            return event
        if event == "object.__setattr__":
            return "set __code__" if arguments[1:2] == ("__code__",) else ""
        if event == "object.__getattr__":
            return self._inspected(*arguments[:2])
        if event in MACHINE:
            return "ctypes" if not event.startswith("ctypes.dlsym") or _of_interpreter(arguments) else ""
        return self._started(arguments)

    def _inspected(self, what: Any, name: str) -> str:  # noqa: ANN401
        """Whether frames or code are looked at that code under test has no business with.

        A frame that came with a traceback may be looked at, as formatters of errors do; going on from there to the code
        of the test that called is another thing.
        """
        if name in LENT_FRAMES:
            if len(self._lent) > LIMIT * LIMIT:
                self._lent.clear()
            self._lent.add(id(getattr(what, name)))
            return name
        if name == "f_code" and id(what) not in self._lent:
            if what.f_code.co_filename in self._guarded:
                return "code of a calling test"
        elif name == "__code__" and what.__code__.co_filename.startswith(self._kit):
            return "code of the runner"
        return ""

    def _opened(self, event: str, arguments: tuple[Any, ...]) -> str:
        """What kind of file this is, if it is one that matters."""
        path = arguments[0] if arguments else None
        text = _path(path)
        if text is None:
            return "" if type(path) in (int, bool, type(None)) else "open object"
        place = _place(text)
        if event == "open" and place in self._places:
            found = self._places[place]
            return "open test" if found.endswith(".py") else "open data " + found[len(self._workspace) :]
        if text.startswith("/proc/"):
            return "open /proc"
        if text.startswith(self._kit):
            return "open runner"
        # Beneath another folder than ours, which is not told: only its name is.
        flags = arguments[2] if len(arguments) > 2 and type(arguments[2]) is int else 0
        unknown = event == "open" and place is None and arguments[1] is None and not flags & (_CREATE | _DIRECTORY)
        return "open test" if unknown and text in self._names else ""

    def _moved(self, arguments: tuple[Any, ...]) -> str:
        """Whether a file that matters, or a folder above one, is taken away or gets another content."""
        for text in map(_path, arguments):
            if text is not None and (_place(text) in self._places or self._is_above(_absolute(text))):
                return "change test"
        return ""

    def _is_above(self, path: str) -> bool:
        return any(one.startswith(path + "/") for one in self._guarded)

    def _started(self, arguments: tuple[Any, ...]) -> str:
        """Whether a program is started on a file that matters."""
        found = " ".join(_words(arguments[:3]))
        return "open test" if any(name in found for name in self._names) else ""

    def _was_handed(self, path: Any, frame: FrameType | None) -> bool:  # noqa: ANN401
        """Whether the running test passed its own file, a file of data or a folder of tests to what it tests.

        Tests of readers and parsers do so.
        """
        wanted = _absolute(_path(path) or "")
        entry: FrameType | None = None
        while frame is not None:
            file = frame.f_code.co_filename
            if self._is_candidates(file) or (file.startswith("<") and not file.startswith(GENERATED)):
                if file.startswith(self._workspace) and self._is_test(file[len(self._workspace) :]):
                    given: set[str] = set() if entry is None else _paths_given(entry)
                    own = wanted in given and (file == wanted or not wanted.endswith(".py"))
                    return own or any(
                        self._is_test(one[len(self._workspace) :] + "/") and wanted.startswith(one + "/")
                        for one in given
                        if one.startswith(self._workspace)
                    )
                entry = frame
            frame = frame.f_back
        return False

    def _report(self, what: str, frame: FrameType | None) -> None:
        place = self._place_of(what, frame)
        if place is not None and place not in self._seen:
            self._seen.add(place)
            self._counts[place[0]] = self._counts.get(place[0], 0) + 1
            self._send("seen", *place)

    def _place_of(self, what: str, frame: FrameType | None) -> tuple[str, str, int] | None:
        """What was done and where, if it was code under test that did it."""
        frame, helped = self._doer(what, frame)
        if frame is None or self._is_of_tests(frame):
            return None
        file = frame.f_code.co_filename
        if not self._is_candidates(file) and not self._is_forged(what, frame):
            return None
        # Python 3.8 has no word for it.
        place = file[len(self._workspace) :] if file.startswith(self._workspace) else file  # noqa: FURB188
        return (f"{what} {helped}" if helped else what, place, frame.f_lineno)

    def _is_of_tests(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return file.startswith(self._workspace) and self._is_test(file[len(self._workspace) :])

    def _is_forged(self, what: str, frame: FrameType) -> bool:
        """Whether code is of no file, or not of the one that it names: who makes code may name any."""
        file = frame.f_code.co_filename
        if not what.startswith(GRAVE) or file.startswith((*GENERATED, self._kit)):
            return False
        return file.startswith("<") or not self._is_genuine(frame.f_code)

    def _is_candidates(self, file: str) -> bool:
        """Of the workspace, installed by the candidate's own build, or written down wherever there was room."""
        if file.startswith(("<", self._kit)) or self._is_library(file):
            return False
        _, installed, place = file.rpartition("-packages/")
        if file.startswith(self._workspace) or not installed:
            return True
        return self._installed is not None and place.split("/")[0].split(".")[0] not in self._installed

    def _is_test(self, path: str) -> bool:
        return path not in self._written and self._looks_like_test(path)

    def _doer(self, what: str, frame: FrameType | None) -> tuple[FrameType | None, str]:
        """The first frame that is not the standard library at work for somebody; whether it only wanted source lines.

        But for opened files, only what is done directly or through `inspect` counts: logging asks for frames all the
        time, and mocks are given code. Files are also opened by the runner, for whoever calls its loader. Where nobody
        but a test is found, it was whoever only says to be the library.
        """
        direct = not what.startswith(("open", "change", "ctypes"))
        helped, stranger = "", None
        while frame is not None:
            file = frame.f_code.co_filename
            runner = not direct and "/_pytest/" in file
            if not file.startswith("<") and not runner and not self._is_library(file):
                return (stranger or frame) if self._is_of_tests(frame) else frame, helped
            if stranger is None and self._is_forged(what, frame):
                stranger = frame
            if helped or file.endswith("/linecache.py"):
                # The outermost part of the library is what was asked for.
                name = frame.f_code.co_name
                asked = name in SOURCE.get(file.rpartition("/")[2], ())
                asked &= self.testing or name not in FORMATTERS
                helped = "line by line" if asked else "for a source line"
            if direct and not file.startswith("<") and not file.endswith("/inspect.py"):
                return stranger, helped
            frame = frame.f_back
        return stranger, helped

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
    return {_absolute(text) for text in map(_path, values) if text is not None}


def _words(values: tuple[Any, ...]) -> list[str]:
    """Text in the arguments of a call, and in lists among them."""
    found: list[str] = []
    for value in values:
        parts = value if type(value) in (list, tuple) else (value,)
        found += [text for text in map(_path, parts) if text is not None]
    return found


def _place(path: str) -> tuple[int, int] | None:
    """What a path leads to, past all links; None for what is not there, and for folders."""
    try:
        found = _status(path)
    except (OSError, ValueError):
        return None
    return None if found.st_mode & 0o170000 == _IS_DIRECTORY else (found.st_dev, found.st_ino)


def _absolute(path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{_cwd()}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _slot(name: str) -> Any:  # noqa: ANN401
    found = vars(pathlib.PurePath).get(name)
    return found if type(found) is MemberDescriptorType else None


_RAW, _PARTS = _slot("_raw_paths"), _slot("_parts")
_PATH_SPACE, _TOLD_BY = (
    vars(pathlib.PurePath),
    {key: vars(pathlib.PurePath).get(key) for key in ("__fspath__", "__str__")},
)


def _path(value: Any) -> str | None:  # noqa: ANN401
    """The text of a path, without calling anything that is not Python's own: another's code would run in here."""
    kind = type(value)
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, bytes):
        return _decoded(bytes(memoryview(value)), _ENCODING, _ERRORS)
    if kind not in _PATHS or any(_PATH_SPACE.get(key) is not own for key, own in _TOLD_BY.items()):
        return None
    # Its own methods are written in Python, and could have been changed.
    for slot in (_RAW, _PARTS):
        try:
            parts = [] if slot is None else slot.__get__(value)
        except AttributeError:
            continue
        if type(parts) is list and all(type(part) is str for part in parts) and parts:
            last = max(index for index, part in enumerate(parts) if index == 0 or part.startswith("/"))
            return "/".join([parts[last].rstrip("/"), *parts[last + 1 :]]) or "/"
    return None


def _of_interpreter(arguments: tuple[Any, ...]) -> bool:
    return any(type(one) is str and one.lstrip("_").startswith("Py") for one in arguments)
