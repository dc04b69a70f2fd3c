"""Reports interpreter audit events caused by candidate code that tries to influence the verdict.

The interpreter raises audit events no matter under which name a function is called, so names that are assembled at run
time are covered as well. Each report carries the file and line of the code responsible. Reported: opening a file of the
required tests or of the runner, looking around in /proc, requesting the frames of callers, searching the interpreter's
memory.
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

# Bound before any code under test runs. Everything called while it runs is implemented by the interpreter itself.
_stat, _cwd, _getframe, _decode, _encode, _getpid = (
    posix.stat,
    posix.getcwd,
    sys._getframe,  # noqa: SLF001
    bytes.decode,
    str.encode,
    posix.getpid,
)
_PATH_TYPES = (pathlib.PosixPath, pathlib.PurePosixPath)
_CREATE, _DIRECTORY, _IS_DIRECTORY = os.O_CREAT, os.O_DIRECTORY, stat.S_IFDIR
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
RUNNER_FRAMES = 3
"""Number of runner functions between the interpreter's call and the code that handles the event."""
FRAME_EVENTS = frozenset({"sys._getframe", "sys._current_frames"})
MEMORY_EVENTS = frozenset(
    {
        *("gc.get_objects", "gc.get_referrers", "gc.get_referents"),
        *("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback"),
    }
)
FRAME_ATTRIBUTES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
"""Attributes that return a frame without raising a frame event."""
OPEN_EVENTS = frozenset({"open", "os.listdir", "os.scandir"})
NATIVE_EVENTS = frozenset({"ctypes.cdata", "ctypes.dlsym", "ctypes.dlsym/handle"})
"""Events that give access to the interpreter's own memory. Symbol lookups count only for symbols of the interpreter."""
STACK_FORMATTERS = frozenset({"format_stack", "print_stack"})
"""Functions that format stacks for people. Before tests run, their output holds nothing that a test expects."""
SOURCE_READERS = {
    "linecache.py": frozenset({"getline", "getlines", "updatecache", "checkcache"}),
    "traceback.py": frozenset({"line", "lines", "extract_stack", "format_stack", "print_stack", "walk_stack"}),
}
"""Called directly, these return the source of a named file or of the caller. Error formatters use other functions."""
MOVE_EVENTS = frozenset({"os.rename", "os.remove", "os.truncate", "os.link", "os.symlink"})
"""Events that put one file in the place of another without opening either."""
FORGERY_CHECKED = ("open", "change", "ctypes", "gc.", "set ", "sys.set", "sys.monitoring")
"""Prefixes of event kinds for which the code must really come from the file that it names."""
GENERATED_CODE = ("<frozen ", "<doctest ")
"""File name prefixes of generated code that does not belong to the workspace."""
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"})
HANDLED_EVENTS = frozenset(
    {
        *OPEN_EVENTS,
        *MOVE_EVENTS,
        *FRAME_EVENTS,
        *MEMORY_EVENTS,
        *NATIVE_EVENTS,
        *PROCESS_EVENTS,
        "object.__setattr__",
        "object.__getattr__",
    }
)
MAX_REPORTS = 100
"""Reports per kind, so that many reports of one kind cannot hide another kind."""


def make_audit_hook(
    handle_event: Callable[..., bool], is_active: Callable[[], bool]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook whose frame exposes nothing but sealed functions and a set of names.

    `is_active` says whether this thread is inside a runner function: the monitor reads thousands of functions at each
    check, and every read raises an event.
    """
    handled = HANDLED_EVENTS

    def audit_hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in handled and not is_active() and handle_event(event, arguments):
            raise PermissionError(event)

    return audit_hook


class AuditMonitor:
    """Handles audit events. It never calls anything that belongs to the code it observes."""

    def __init__(
        self,
        send: Callable[..., None],
        job: Mapping[str, Any],
        runner_folder: str,
        is_test: Callable[[str], bool],
        wait_for_other_threads: Callable[[], None],
        is_genuine: Callable[[CodeType], bool],
    ) -> None:
        """`is_genuine` says whether code really comes from the file that it names."""
        self._is_genuine = is_genuine
        self._setup_packages = frozenset(job["pinned"]) if job["mode"] != "survey" else None
        """Packages that setup installed, which are not code under test. None means every installed package."""
        self._send = send
        self._wait_for_other_threads = wait_for_other_threads
        self._pid = _getpid()
        self._workspace = job["workspace"].rstrip("/") + "/"
        self._patched_files = frozenset(job["written"])
        """Files that the patch wrote. They are code under test whatever they are called."""
        self._stdlib_folder = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._guarded = frozenset(job["guarded"])
        self._guarded_inodes = {inode: path for path in self._guarded if (inode := _inode(path)) is not None}
        """The guarded files by device and inode, so that links and other paths to them are recognised."""
        self._guarded_names = frozenset(path.rpartition("/")[2] for path in self._guarded)
        self._runner_folder = runner_folder.rstrip("/") + "/"
        self._has_test_name = is_test
        self._traceback_frames: set[int] = set()
        self._reported: set[tuple[str, str, int]] = set()
        self._counts: dict[str, int] = {}
        self.testing = False
        """Whether collection is over and tests are running."""
        self._busy_threads: set[int] = set()
        """Threads that are inside `handle_event`."""

    def begin_tests(self) -> None:
        self.testing = True

    def handle_event(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Report the event if it matters. Return whether the operation must be refused."""
        thread = get_ident()
        if thread in self._busy_threads:
            return False
        self._busy_threads.add(thread)  # the calls below raise audit events too
        try:
            kind = self._classify(event, arguments)
            frame: FrameType | None = _getframe(RUNNER_FRAMES + 1)
            is_guarded = kind.startswith(("open test", "open data ", "change test"))
            if is_guarded and event not in PROCESS_EVENTS and self._test_passed_path(arguments[0], frame):
                kind, is_guarded = "open handed", False
            if is_guarded and _getpid() != self._pid:
                # A forked process cannot report anything, so it is not allowed to read the file either.
                return self._locate(kind, frame) is not None
            if kind and self._counts.get(kind, 0) < MAX_REPORTS:
                self._report(kind, frame)
            if event == "sys._current_frames":
                self._wait_for_other_threads()
            return False
        finally:
            self._busy_threads.discard(thread)

    def _classify(self, event: str, arguments: tuple[Any, ...]) -> str:
        if event in OPEN_EVENTS or event in MOVE_EVENTS:
            return self._classify_open(event, arguments) if event in OPEN_EVENTS else self._classify_move(arguments[:2])
        if event in FRAME_EVENTS or event in MEMORY_EVENTS:
            return event
        if event == "object.__setattr__":
            return "set __code__" if arguments[1:2] == ("__code__",) else ""
        if event == "object.__getattr__":
            return self._classify_inspection(*arguments[:2])
        if event in NATIVE_EVENTS:
            return "ctypes" if not event.startswith("ctypes.dlsym") or _names_python_symbol(arguments) else ""
        return self._classify_process(arguments)

    def _classify_inspection(self, inspected: Any, name: str) -> str:  # noqa: ANN401
        """Classify access to frames or code objects that code under test has no reason to look at.

        A frame that came with a traceback may be read, as error formatters do. Going on from there to the code of the
        calling test is reported.
        """
        if name in FRAME_ATTRIBUTES:
            if len(self._traceback_frames) > MAX_REPORTS * MAX_REPORTS:
                self._traceback_frames.clear()
            self._traceback_frames.add(id(getattr(inspected, name)))
            return name
        if name == "f_code" and id(inspected) not in self._traceback_frames:
            if inspected.f_code.co_filename in self._guarded:
                return "code of a calling test"
        elif name == "__code__" and inspected.__code__.co_filename.startswith(self._runner_folder):
            return "code of the runner"
        return ""

    def _classify_open(self, event: str, arguments: tuple[Any, ...]) -> str:
        """Return what kind of guarded file is opened, or an empty string."""
        path = arguments[0] if arguments else None
        text = _path_text(path)
        if text is None:
            return "" if type(path) in (int, bool, type(None)) else "open object"
        inode = _inode(text)
        if event == "open" and inode in self._guarded_inodes:
            guarded = self._guarded_inodes[inode]
            return "open test" if guarded.endswith(".py") else "open data " + guarded[len(self._workspace) :]
        if text.startswith("/proc/"):
            return "open /proc"
        if text.startswith(self._runner_folder):
            return "open runner"
        # The path may be relative to a directory descriptor, which the event does not tell: only the name is known.
        flags = arguments[2] if len(arguments) > 2 and type(arguments[2]) is int else 0
        by_name_only = event == "open" and inode is None and arguments[1] is None and not flags & (_CREATE | _DIRECTORY)
        return "open test" if by_name_only and text in self._guarded_names else ""

    def _classify_move(self, arguments: tuple[Any, ...]) -> str:
        """Detect that a guarded file, or a folder above one, is removed or gets other content."""
        for text in map(_path_text, arguments):
            if text is not None and (_inode(text) in self._guarded_inodes or self._is_above(_absolute(text))):
                return "change test"
        return ""

    def _is_above(self, path: str) -> bool:
        return any(guarded.startswith(path + "/") for guarded in self._guarded)

    def _classify_process(self, arguments: tuple[Any, ...]) -> str:
        """Detect a program that is started on a guarded file."""
        command = " ".join(_texts(arguments[:3]))
        return "open test" if any(name in command for name in self._guarded_names) else ""

    def _test_passed_path(self, path: Any, frame: FrameType | None) -> bool:  # noqa: ANN401
        """Return whether the running test passed its own file, a data file or a folder of tests to the code it tests.

        Tests of readers and parsers do so.
        """
        opened = _absolute(_path_text(path) or "")
        entry: FrameType | None = None
        while frame is not None:
            file = frame.f_code.co_filename
            if self._is_candidate_code(file) or (file.startswith("<") and not file.startswith(GENERATED_CODE)):
                if file.startswith(self._workspace) and self._is_test(file[len(self._workspace) :]):
                    passed: set[str] = set() if entry is None else _path_arguments(entry)
                    is_passed = opened in passed and (file == opened or not opened.endswith(".py"))
                    return is_passed or any(
                        self._is_test(folder[len(self._workspace) :] + "/") and opened.startswith(folder + "/")
                        for folder in passed
                        if folder.startswith(self._workspace)
                    )
                entry = frame
            frame = frame.f_back
        return False

    def _report(self, kind: str, frame: FrameType | None) -> None:
        location = self._locate(kind, frame)
        if location is not None and location not in self._reported:
            self._reported.add(location)
            self._counts[location[0]] = self._counts.get(location[0], 0) + 1
            self._send("seen", *location)

    def _locate(self, kind: str, frame: FrameType | None) -> tuple[str, str, int] | None:
        """Return kind, file and line of an event if candidate code is responsible for it."""
        frame, purpose = self._responsible_frame(kind, frame)
        if frame is None or self._is_test_frame(frame):
            return None
        file = frame.f_code.co_filename
        if not self._is_candidate_code(file) and not self._is_forged(kind, frame):
            return None
        # Python 3.8 has no `removeprefix`.
        place = file[len(self._workspace) :] if file.startswith(self._workspace) else file  # noqa: FURB188
        return (f"{kind} {purpose}" if purpose else kind, place, frame.f_lineno)

    def _is_test_frame(self, frame: FrameType) -> bool:
        file = frame.f_code.co_filename
        return file.startswith(self._workspace) and self._is_test(file[len(self._workspace) :])

    def _is_forged(self, kind: str, frame: FrameType) -> bool:
        """Return whether code has no file or does not come from the file it names.

        Code created at run time can name any file.
        """
        file = frame.f_code.co_filename
        if not kind.startswith(FORGERY_CHECKED) or file.startswith((*GENERATED_CODE, self._runner_folder)):
            return False
        return file.startswith("<") or not self._is_genuine(frame.f_code)

    def _is_candidate_code(self, file: str) -> bool:
        """Return whether a file is in the workspace, from the candidate's own build, or was written anywhere else."""
        if file.startswith(("<", self._runner_folder)) or self._is_stdlib(file):
            return False
        _, installed, place = file.rpartition("-packages/")
        if file.startswith(self._workspace) or not installed:
            return True
        return self._setup_packages is not None and place.split("/")[0].split(".")[0] not in self._setup_packages

    def _is_test(self, path: str) -> bool:
        return path not in self._patched_files and self._has_test_name(path)

    def _responsible_frame(self, kind: str, frame: FrameType | None) -> tuple[FrameType | None, str]:
        """Find the first frame outside the standard library, and whether the library only wanted source lines.

        Except for opened files, only direct calls and calls through `inspect` count: logging requests frames all the
        time, and mocks are given code. pytest also opens files, on behalf of the code that calls its loader. If the
        first such frame belongs to a test, the event is attributed to code that only claims to be part of the library,
        if there is any.
        """
        direct = not kind.startswith(("open", "change", "ctypes"))
        purpose, forged = "", None
        while frame is not None:
            file = frame.f_code.co_filename
            in_pytest = not direct and "/_pytest/" in file
            if not file.startswith("<") and not in_pytest and not self._is_stdlib(file):
                return (forged or frame) if self._is_test_frame(frame) else frame, purpose
            if forged is None and self._is_forged(kind, frame):
                forged = frame
            if purpose or file.endswith("/linecache.py"):
                # The outermost library function is the one that was called.
                name = frame.f_code.co_name
                reads_source = name in SOURCE_READERS.get(file.rpartition("/")[2], ())
                reads_source &= self.testing or name not in STACK_FORMATTERS
                purpose = "line by line" if reads_source else "for a source line"
            if direct and not file.startswith("<") and not file.endswith("/inspect.py"):
                return forged, purpose
            frame = frame.f_back
        return forged, purpose

    def _is_stdlib(self, file: str) -> bool:
        """Return whether a file belongs to the standard library and not to a package installed next to it."""
        return file.startswith(self._stdlib_folder) and "/site-packages/" not in file and "/dist-packages/" not in file


def _path_arguments(frame: FrameType) -> set[str]:
    """Return the arguments of a call that are paths, or lists of paths."""
    code = frame.f_code
    values: list[Any] = [
        frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]
    values += [element for value in values if type(value) in (list, tuple) for element in value[:MAX_REPORTS]]
    return {_absolute(text) for text in map(_path_text, values) if text is not None}


def _texts(values: tuple[Any, ...]) -> list[str]:
    """Return the texts among the arguments of a call, and in lists among them."""
    texts: list[str] = []
    for value in values:
        elements = value if type(value) in (list, tuple) else (value,)
        texts += [text for text in map(_path_text, elements) if text is not None]
    return texts


def _inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, following links. None if it does not exist or is a folder."""
    try:
        status = _stat(path)
    except (OSError, ValueError):
        return None
    return None if status.st_mode & 0o170000 == _IS_DIRECTORY else (status.st_dev, status.st_ino)


def _absolute(path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{_cwd()}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _slot(name: str) -> Any:  # noqa: ANN401
    descriptor = vars(pathlib.PurePath).get(name)
    return descriptor if type(descriptor) is MemberDescriptorType else None


_RAW_SLOT, _PARTS_SLOT = _slot("_raw_paths"), _slot("_parts")
_PATH_NAMESPACE, _PATH_METHODS = (
    vars(pathlib.PurePath),
    {key: vars(pathlib.PurePath).get(key) for key in ("__fspath__", "__str__")},
)


def _path_text(value: Any) -> str | None:  # noqa: ANN401
    """Return the text of a path without calling any code that is not Python's own: foreign code would run in here."""
    path_type = type(value)
    if issubclass(path_type, str):
        return str.__str__(value)
    if issubclass(path_type, bytes):
        return _decode(bytes(memoryview(value)), _ENCODING, _ERRORS)
    if path_type not in _PATH_TYPES or any(
        _PATH_NAMESPACE.get(key) is not original for key, original in _PATH_METHODS.items()
    ):
        return None
    # The methods of a path are written in Python and could have been replaced.
    for slot in (_RAW_SLOT, _PARTS_SLOT):
        try:
            parts = [] if slot is None else slot.__get__(value)
        except AttributeError:
            continue
        if type(parts) is list and all(type(part) is str for part in parts) and parts:
            last = max(index for index, part in enumerate(parts) if index == 0 or part.startswith("/"))
            return "/".join([parts[last].rstrip("/"), *parts[last + 1 :]]) or "/"
    return None


def _names_python_symbol(arguments: tuple[Any, ...]) -> bool:
    return any(type(argument) is str and argument.lstrip("_").startswith("Py") for argument in arguments)
