"""Reports interpreter audit events caused by candidate code that tries to influence the verdict.

The interpreter raises audit events no matter under which name a function is called, so names that are assembled at run
time are covered as well. Each report carries the file and line of the code responsible. Reported: opening, moving or
replacing a file of the required tests, opening or searching the interpreter's memory, and loading code that was put in
place while tests run.
"""

from __future__ import annotations

import os
import pathlib
import posix
import re
import stat
import sys
from _imp import get_frozen_object
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator, Mapping
from gc import get_objects, unfreeze
from importlib.util import MAGIC_NUMBER
from marshal import loads
from time import time
from types import CodeType, FrameType, FunctionType
from typing import Any

# Bound before any code under test runs. Everything called while it runs is implemented by the interpreter itself.
_stat, _list_folder, _cwd, _getpid = posix.stat, posix.listdir, posix.getcwd, posix.getpid
_getframe = sys._getframe  # noqa: SLF001
_PATH_TYPES, _path_str = (pathlib.PosixPath, pathlib.PurePosixPath), pathlib.PurePath.__str__
_CLASS_MRO, _CLASS_DICT = vars(type)["__mro__"], vars(type)["__dict__"]
_PATH_BASES = frozenset(pathlib.PosixPath.__mro__)
_PATH_NAMES = frozenset(
    {"__fspath__", "__str__", "__getattribute__", "__getattr__", "drive", "root", "parts", "parser"}
) | {name for base in _PATH_BASES for name in vars(base) if name.startswith("_") and not name.startswith("__")}
"""Attributes on which the text of a path depends."""
_split_words = re.compile(r"[\s'\"()\[\]{},;&|<>=`$]+").split
_IS_DIRECTORY = stat.S_IFDIR
_MEMORY_MODE = stat.S_IFREG | stat.S_IRUSR | stat.S_IWUSR
"""Mode of `/proc/PID/mem`, the only file of a process there that its owner may both read and write."""
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
RUNNER_FRAMES = 3
"""Number of runner functions between the interpreter's call and the code that handles the event."""
OPEN_TEST, OPEN_DATA, OPEN_MEMORY, OPEN_OBJECT = "open test", "open data", "open memory", "open object"
CHANGE_TEST, READ_SOURCE, SEARCH_MEMORY = "change test", "read source", "search memory"
LOAD_LIBRARY, LOAD_BYTECODE, LOAD_PACKAGE = "load library", "load bytecode", "load package"
MOVE_EVENTS = frozenset({"os.rename", "os.remove", "os.truncate", "os.link", "os.symlink"})
"""Events that put one file in the place of another without opening either."""
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"})
MEMORY_EVENTS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
LIBRARY_EVENTS = {"import": 1, "ctypes.dlopen": 0}
"""Events that load a native library, and the position of its file among their arguments."""
HANDLED_EVENTS = {"exec", "open"} | LIBRARY_EVENTS.keys() | MOVE_EVENTS | PROCESS_EVENTS | MEMORY_EVENTS
IMPORT_SYSTEM = "<frozen importlib._bootstrap_external>"
STACK_FORMATTERS = frozenset({"format_stack", "print_stack"})
SOURCE_READERS = STACK_FORMATTERS | {
    *("extract_stack", "walk_stack", "line", "lines", "getline", "getlines", "updatecache", "checkcache"),
}
"""Functions of `linecache` and `traceback` that return the source of a named file or of the caller when code under test
calls them. Those that format errors have other names.
"""
SOURCE_MODULES = ("/linecache.py", "/traceback.py")
ON_BEHALF = frozenset({OPEN_TEST, OPEN_MEMORY, CHANGE_TEST})
"""Events for which the caller of an installed package is responsible. Tests hand packages other files."""
FROZEN = "<frozen "
REWRITER = "/_pytest/assertion/rewrite.py"
_BYTECODE_SUFFIX = f"{sys.implementation.cache_tag}{f'.opt-{sys.flags.optimize}' if sys.flags.optimize else ''}.pyc"
MAX_REPORTS = 100
"""Reports per kind, so that many reports of one kind cannot hide another kind."""


def _variables() -> Mapping[str, Any]:
    return _getframe().f_locals


_VARIABLES_TYPES = (dict, type(_variables()))
"""Types of the variables of a frame: of code that `exec` runs, and of a function."""


def make_audit_hook(handle_event: Callable[..., bool]) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook whose frame exposes nothing but a sealed function and a set of names."""
    handled = HANDLED_EVENTS

    def audit_hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in handled and handle_event(event, arguments):
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
        trusted_paths: Iterable[str],
    ) -> None:
        self._installed = tuple(_absolute(path) + "/" for path in trusted_paths if "-packages" in path)
        """Folders of installed packages. Tests may make others with such a name."""
        self._setup_packages = frozenset(job["pinned"]) if job["mode"] != "survey" else None
        """Packages that setup installed, which are not code under test. None means every installed package."""
        self._send = send
        self._pid = _getpid()
        self._workspace = job["workspace"].rstrip("/") + "/"
        self._patched_inodes = frozenset(_inode(self._workspace + path) for path in job["written"])
        """Files that the patch wrote. They are code under test wherever they are moved."""
        self._stdlib_folder = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._guarded = frozenset(job["guarded"])
        self._guarded_inodes = {inode: path for path in self._guarded if (inode := _inode(path)) is not None}
        """The guarded files by device and inode, so that links and other paths to them are recognised."""
        self._guarded_names = frozenset(path.rpartition("/")[2] for path in self._guarded if path.endswith(".py"))
        self._started = time()
        self._proc_device = _stat("/proc").st_dev
        self._runner_folder = runner_folder.rstrip("/") + "/"
        self._has_test_name = is_test
        self._known_code: dict[tuple[str, str], list[CodeType]] = {}
        """Code that is not under test, by the file and name that it has."""
        self._read_files: set[str] = set()
        self._genuine: dict[int, CodeType] = {}
        """Code that is not under test, by its identity: first all that was loaded before code under test."""
        self._reported: set[tuple[str, str, str, int]] = set()
        self._counts: dict[str, int] = {}
        self._busy_threads: set[int] = set()
        """Threads that are inside `handle_event`."""
        self._add_loaded()

    def handle_event(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Report the event if it matters. Return whether the operation must be refused."""
        thread = get_ident()
        if thread in self._busy_threads:
            return False
        self._busy_threads.add(thread)  # the calls below raise audit events too
        try:
            frame: FrameType | None = _getframe(RUNNER_FRAMES + 1)
            if event == "exec":
                self._add_rewritten(arguments[0], frame)
                return False
            report = self._loaded_file(event, arguments, frame) or self._tampering(event, arguments, frame)
            if report is None or report in self._reported or self._counts.get(report[0], 0) >= MAX_REPORTS:
                return False
            if _getpid() != self._pid:
                # A forked process cannot report anything, so it may not do what would fail the check.
                return report[0] != LOAD_LIBRARY
            self._reported.add(report)
            self._counts[report[0]] = self._counts.get(report[0], 0) + 1
            self._send("seen", *report)
            return False
        finally:
            self._busy_threads.discard(thread)

    def _loaded_file(
        self, event: str, arguments: tuple[Any, ...], frame: FrameType | None
    ) -> tuple[str, str, str, int] | None:
        """Return the file that an event loads, if it is bytecode of the workspace, or a library or package written while tests run.

        Such code escapes inspection: no patch contains it.
        """
        text, kind = _path_text(arguments[LIBRARY_EVENTS.get(event, 0)]), ""
        if text is None:
            return None
        if event in LIBRARY_EVENTS:
            kind = LOAD_LIBRARY if self._is_new(text) else ""
        elif event == "open" and frame is not None and _file_of(frame.f_code) == IMPORT_SYSTEM:
            if self._is_bytecode(text, frame):
                kind = LOAD_BYTECODE
            elif _absolute(text).startswith(self._installed) and self._is_new(text):
                kind = LOAD_PACKAGE
        place = self._place(text)
        return (kind, place, place, 0) if kind else None

    def _is_bytecode(self, path: str, frame: FrameType) -> bool:
        """Return whether the import system opens a file as bytecode of a module in the workspace, wherever it is."""
        caller = frame.f_back
        if caller is None or _name_of(caller.f_code) != "get_code" or _file_of(caller.f_code) != IMPORT_SYSTEM:
            return False
        if not self._is_genuine(caller.f_code):
            return False  # code under test that claims to be the import system, whose variables may run its methods
        source = caller.f_locals.get("source_path", path)  # a loader without this variable loads only bytecode
        is_own = type(source) is str and source.startswith(self._workspace) and not source.startswith(self._installed)
        return is_own and caller.f_locals.get("bytecode_path", path) == path

    def _is_new(self, path: str) -> bool:
        """Return whether a file was written since the runner started. No program can set the time of a change.

        New links change it too: the harness makes them to files of the interpreter when it prepares other tasks. What a
        sandbox writes to such a file goes to a copy with one link.
        """
        started = self._started
        return any(
            status.st_ctime >= started and (status.st_nlink == 1 or status.st_mtime >= started)
            for status in _statuses(path)
        )

    def _tampering(
        self, event: str, arguments: tuple[Any, ...], frame: FrameType | None
    ) -> tuple[str, str, str, int] | None:
        """Return the kind of tampering, the file it is about, and file and line of the code under test that is responsible."""
        kind = target = ""
        paths: list[str] = []
        if event == "open":
            kind, target = self._opened(arguments)
            paths = _texts(arguments[:1])
        elif event in PROCESS_EVENTS:
            paths = self._named_tests(event, arguments)
            kind = OPEN_TEST if paths else ""
        elif event in MEMORY_EVENTS:
            kind = SEARCH_MEMORY
        elif event in MOVE_EVENTS and any(self._is_guarded(text) for text in map(_path_text, arguments[:2])):
            kind = CHANGE_TEST
        kind, responsible = self._responsible(kind, paths, frame) if kind else ("", None)
        if responsible is None:
            return None
        return kind, target, self._place(_file_of(responsible.f_code)), responsible.f_lineno

    def _opened(self, arguments: tuple[Any, ...]) -> tuple[str, str]:
        """Return the kind of an event that opens a file, and the guarded data file; empty texts if it does not matter."""
        path, mode = arguments[:2]
        text = _path_text(path)
        if text is None:
            return ("" if type(path) in (int, bool, type(None)) else OPEN_OBJECT), ""
        # `os.open`, whose events have no mode, takes a path relative to a directory descriptor, which the event does not tell.
        relative = mode is None and not text.startswith("/")
        for status in _statuses(text, _open_descriptors() if relative else ()):
            guarded = self._guarded_inodes.get((status.st_dev, status.st_ino))
            if guarded is not None:
                return (OPEN_TEST, "") if guarded.endswith(".py") else (OPEN_DATA, self._place(guarded))
            if status.st_dev == self._proc_device and status.st_mode == _MEMORY_MODE:
                return OPEN_MEMORY, ""
        return "", ""

    def _is_guarded(self, path: str | None) -> bool:
        """Return whether a path is that of a guarded file or of a folder above one."""
        if path is None:
            return False
        folder = _absolute(path) + "/"
        return _inode(path) in self._guarded_inodes or any(guarded.startswith(folder) for guarded in self._guarded)

    def _named_tests(self, event: str, arguments: tuple[Any, ...]) -> list[str]:
        """Return the words of a command that are paths of tests, or have the name of one and are no other file."""
        folder = (_path_text(arguments[2]) if event == "subprocess.Popen" else None) or "."
        words = [word for text in _texts(arguments[:3]) for word in _split_words(text)]
        inodes = [(word, _inode(word if word.startswith("/") else f"{folder}/{word}")) for word in words]
        return [
            word
            for word, inode in inodes
            if inode in self._guarded_inodes or (inode is None and any(name in word for name in self._guarded_names))
        ]

    def _responsible(self, kind: str, paths: list[str], frame: FrameType | None) -> tuple[str, FrameType | None]:
        """Return the kind of an event and the frame of the code under test that is responsible for it, if any.

        The first frame that is code under test is responsible, unless a genuine test comes before it or passed it the
        file. The standard library acts on behalf of its caller, and so do installed packages for some events. Code without
        a file is responsible if nothing else is: libraries make such code for their callers.
        """
        if kind == SEARCH_MEMORY:  # libraries do this for themselves
            return kind, None if frame is None or self._is_genuine(frame.f_code) else frame
        # `entry` is the function that the test called, `reader` the one of the library that reads lines of source.
        responsible = generated = entry = reader = outermost = None
        while frame is not None:
            outermost, file = frame, _file_of(frame.f_code)
            if not self._is_genuine(frame.f_code):
                entry = frame
                if file.startswith("<"):
                    generated = generated or frame
                else:
                    responsible = responsible or frame
            elif self._is_test(file):
                break
            elif responsible is None:
                if file.startswith(self._installed) and (reader is not None or kind not in ON_BEHALF):
                    return kind, None
                if reader is not None or (kind == OPEN_TEST and file.endswith("/linecache.py")):
                    reader = frame
            frame = frame.f_back
        if frame is not None and entry is not None and paths and self._are_passed(paths, entry, _file_of(frame.f_code)):
            return kind, None
        if reader is not None:
            return READ_SOURCE, (responsible or generated) if _reads_source(reader.f_code, frame) else None
        if frame is None and outermost is not None and not _file_of(outermost.f_code).startswith(self._runner_folder):
            # A thread without a test: code under test started it.
            generated = generated or (outermost if kind in ON_BEHALF else None)
        return kind, responsible or generated

    def _are_passed(self, paths: list[str], entry: FrameType, test: str) -> bool:
        """Return whether a test passed its own file, data files or a folder of tests to the function that it called.

        Tests of readers and parsers do so.
        """
        code = entry.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        # `exec` may be given variables of another type.
        variables = entry.f_locals if type(entry.f_locals) in _VARIABLES_TYPES else {}
        values = [value for name, value in list(variables.items()) if type(name) is str and name in names]
        passed = {_absolute(text) for text in _texts(tuple(values))}
        folders = tuple([folder + "/" for folder in passed if self._is_test(folder + "/")])
        return all(
            (path in passed and (path == test or not path.endswith(".py"))) or path.startswith(folders)
            for path in map(_absolute, paths)
        )

    def _place(self, file: str) -> str:
        """Return a path relative to the workspace if it is there. Python 3.8 has no `removeprefix`."""
        return file[len(self._workspace) :] if file.startswith(self._workspace) else file  # noqa: FURB188

    def _is_genuine(self, code: CodeType) -> bool:
        """Return whether code is not under test: it was loaded before, or comes from the library file or test that it names."""
        if self._genuine.get(id(code)) is code:
            return True
        file = _file_of(code)
        if file not in self._read_files:
            self._read_files.add(file)
            self._add_known(file, self._read_code(file))
        genuine = any(_is_same(code, other) for other in self._known_code.get((file, _name_of(code)), ()))
        if genuine:
            self._genuine[id(code)] = code
        return genuine

    def _add_loaded(self) -> None:
        """Recognise the runner, pytest and everything else that is loaded so far."""
        unfreeze()  # frozen objects are not listed
        loaded = [function.__code__ for function in get_objects() if type(function) is FunctionType]
        frame: FrameType | None = _getframe()
        while frame is not None:
            loaded.append(frame.f_code)
            frame = frame.f_back
        files = {code.co_filename for code in loaded}
        trusted = {
            file for file in files if file.startswith((FROZEN, self._runner_folder)) or self._is_trusted_file(file)
        }
        self._genuine.update((id(code), code) for code in _with_nested(loaded) if code.co_filename in trusted)

    def _add_known(self, file: str, module: CodeType | None) -> None:
        """Recognise the code of a file. Bytecode names the place where it was compiled, which may be another."""
        for code in _with_nested([] if module is None else [module]):
            self._known_code.setdefault((file, code.co_name), []).append(code)

    def _add_rewritten(self, module: CodeType, frame: FrameType | None) -> None:
        """Recognise a test or plugin that pytest executes after it has rewritten what its file contains."""
        if frame is not None and _file_of(frame.f_code).endswith(REWRITER) and self._is_genuine(frame.f_code):
            file = _file_of(module)
            self._add_known(file, module if self._is_trusted_file(file) else None)

    def _read_code(self, file: str) -> CodeType | None:
        """Return the code of a frozen module or a file, or None if it is under test."""
        try:
            if file.startswith(FROZEN):
                return get_frozen_object(file[len(FROZEN) : -1])
            if not self._is_trusted_file(file):
                return None
            bytecode = _bytecode_file(file)
            return (None if self._is_new(bytecode) else _cached_code(file, bytecode)) or _compiled(file)
        except (OSError, ImportError, ValueError, EOFError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None

    def _is_trusted_file(self, file: str) -> bool:
        """Return whether setup or the task wrote a file: standard library, installed package or test."""
        installed = next((folder for folder in self._installed if file.startswith(folder)), "")
        if installed:
            package = file[len(installed) :].partition("/")[0].partition(".")[0]
            trusted = self._setup_packages is None or package in self._setup_packages
        else:
            trusted = file.startswith(self._stdlib_folder) or self._is_test(file)
        return trusted and not self._is_new(file) and _inode(file) not in self._patched_inodes

    def _is_test(self, path: str) -> bool:
        return path.startswith(self._workspace) and self._has_test_name(path[len(self._workspace) :])


def _file_of(code: CodeType) -> str:
    """Return the file that code names. Methods of a subclass of `str` would belong to the code under test."""
    return str.__str__(code.co_filename)


def _name_of(code: CodeType) -> str:
    return str.__str__(code.co_name)


def _with_nested(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """Yield code and the code of the functions and classes defined in it."""
    pending = list(codes)
    while pending:
        code = pending.pop()
        yield code
        pending += [constant for constant in code.co_consts if type(constant) is CodeType]


def _bytecode_file(file: str) -> str:
    folder, _, name = file.rpartition("/")
    return f"{folder}/__pycache__/{name.rpartition('.')[0]}.{_BYTECODE_SUFFIX}"


def _cached_code(file: str, bytecode: str) -> CodeType | None:
    """Return the code of a module from its bytecode file, or None if that does not belong to the source as it is.

    Compiling takes longer, and warns of what is deprecated in the source.
    """
    try:
        source = _stat(file)
        with open(bytecode, "rb") as cached:  # noqa: PTH123
            data = cached.read()
    except OSError:
        return None
    stamp = [int(value) & 0xFFFFFFFF for value in (source.st_mtime, source.st_size)]
    header = MAGIC_NUMBER + b"".join(value.to_bytes(4, "little") for value in (0, *stamp))
    return loads(data[len(header) :]) if data.startswith(header) else None  # noqa: S302 - Python loads the same file


def _compiled(file: str) -> CodeType:
    with open(file, "rb") as source:  # noqa: PTH123
        # As text, because the encoding that a file declares may be a codec of the code under test. Constants are not compared.
        text = source.read().decode("utf-8", "replace")
    return compile(text.lstrip("\ufeff"), file, "exec", dont_inherit=True)


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Return whether code does the same as other code of the same name, wherever it stands."""
    names = code.co_names == other.co_names and code.co_varnames == other.co_varnames
    return names and code.co_code == other.co_code


def _reads_source(reader: CodeType, test: FrameType | None) -> bool:
    """Return whether a library function returns lines of source, and not just formats an error.

    Formatted stacks of the import of a test hold nothing that a test expects.
    """
    name = _name_of(reader)
    at_import = test is not None and _name_of(test.f_code) == "<module>" and name in STACK_FORMATTERS
    return name in SOURCE_READERS and _file_of(reader).endswith(SOURCE_MODULES) and not at_import


def _texts(values: tuple[Any, ...]) -> list[str]:
    """Return the paths and texts among the arguments of a call, and in lists among them."""
    texts: list[str] = []
    for value in values:
        elements = value[:MAX_REPORTS] if type(value) in (list, tuple) else (value,)
        texts += [text for text in map(_path_text, elements) if text is not None]
    return texts


def _path_text(value: Any) -> str | None:  # noqa: ANN401
    """Return the text of a path, or None for objects other than strings and the paths of `pathlib`."""
    if issubclass(type(value), str):
        return str.__str__(value)
    if issubclass(type(value), bytes):
        return bytes(memoryview(value)).decode(_ENCODING, _ERRORS)
    return _path_str(value) if issubclass(type(value), _PATH_TYPES) and _is_plain_path(type(value)) else None


def _is_plain_path(kind: type) -> bool:
    """Return whether a subclass of the paths of `pathlib` replaces nothing of them. Then their methods give its text."""
    if type(kind) is not type:
        return False
    added = [base for base in _CLASS_MRO.__get__(kind) if base not in _PATH_BASES]
    return not any(type(name) is not str or name in _PATH_NAMES for base in added for name in _CLASS_DICT.__get__(base))


def _inode(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, following links. None if it does not exist or is a folder."""
    return next(((status.st_dev, status.st_ino) for status in _statuses(path)), None)


def _statuses(path: str, descriptors: Iterable[int] = ()) -> Iterator[posix.stat_result]:
    """Yield the status of a file, following links, and of files with this path below open folders. Folders are left out."""
    for descriptor in (None, *descriptors):
        try:
            status = _stat(path, dir_fd=descriptor)
        except (OSError, ValueError):
            continue
        if status.st_mode & 0o170000 != _IS_DIRECTORY:
            yield status


def _open_descriptors() -> list[int]:
    try:
        return [int(name) for name in _list_folder("/proc/self/fd")]
    except OSError:
        return []


def _absolute(path: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{_cwd()}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)
