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
from importlib.util import MAGIC_NUMBER
from marshal import loads
from time import time
from types import CodeType, FrameType
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
OPEN_EVENTS = frozenset({"open", "os.listdir", "os.scandir"})
MOVE_EVENTS = frozenset({"os.rename", "os.remove", "os.truncate", "os.link", "os.symlink"})
"""Events that put one file in the place of another without opening either."""
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn"})
MEMORY_EVENTS = frozenset({"gc.get_objects", "gc.get_referrers", "gc.get_referents"})
LOAD_EVENTS = {"open": 0, "import": 1, "ctypes.dlopen": 0}
"""Events that load code, if the import system opens the file, and the position of the file among their arguments."""
IMPORT_SYSTEM = "<frozen importlib._bootstrap_external>"
HANDLED_EVENTS = {"exec"} | LOAD_EVENTS.keys() | OPEN_EVENTS | MOVE_EVENTS | PROCESS_EVENTS | MEMORY_EVENTS
STACK_FORMATTERS = frozenset({"format_stack", "print_stack"})
"""Functions that format stacks for people. Before tests run, their output holds nothing that a test expects."""
SOURCE_READERS = {
    "linecache.py": frozenset({"getline", "getlines", "updatecache", "checkcache"}),
    "traceback.py": frozenset({"line", "lines", "extract_stack", "format_stack", "print_stack", "walk_stack"}),
}
"""Called directly, these return the source of a named file or of the caller. Error formatters use other functions."""
ON_BEHALF = frozenset({"open test", "open memory", "change test"})
"""Events for which the caller of an installed package is responsible. Tests hand packages other files."""
FROZEN = "<frozen "
FROZEN_NAMES = {
    "importlib._bootstrap": "_frozen_importlib",
    "importlib._bootstrap_external": "_frozen_importlib_external",
}
"""Frozen modules that the interpreter keeps under another name than that of their file."""
REWRITER = "/_pytest/assertion/rewrite.py"
_BYTECODE_SUFFIX = f"{sys.implementation.cache_tag}{f'.opt-{sys.flags.optimize}' if sys.flags.optimize else ''}.pyc"
MAX_REPORTS = 100
"""Reports per kind, so that many reports of one kind cannot hide another kind."""


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
        runner_code: list[CodeType],
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
        self._read_files = {code.co_filename for code in runner_code}
        self._genuine: dict[int, CodeType] = {}
        """Code that was recognised before, by its identity."""
        self._reported: set[tuple[str, str, int]] = set()
        self._counts: dict[str, int] = {}
        self.testing = False
        """Whether collection is over and tests are running."""
        self._busy_threads: set[int] = set()
        """Threads that are inside `handle_event`."""
        for module in runner_code:
            self._add_known(module.co_filename, module)

    def begin_tests(self) -> None:
        self.testing = True

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
            location = self._loaded_file(event, arguments, frame) or self._responsible(event, arguments, frame)
            if location is None or location in self._reported:
                return False
            kind = location[0]
            if kind.startswith(("load ", "open data ")):
                kind = " ".join(kind.split(" ")[:2])  # without the file that the event names
            if self._counts.get(kind, 0) >= MAX_REPORTS:
                return False
            if _getpid() != self._pid:
                # A forked process cannot report anything, so it may not do what would fail the check.
                return kind != "load library"
            self._reported.add(location)
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._send("seen", *location)
            return False
        finally:
            self._busy_threads.discard(thread)

    def _responsible(
        self, event: str, arguments: tuple[Any, ...], frame: FrameType | None
    ) -> tuple[str, str, int] | None:
        """Return what kind of tampering an event is, with the file and line of the code responsible, or None."""
        kind = self._classify(event, arguments)
        if not kind or self._counts.get(kind, 0) >= MAX_REPORTS:
            return None
        paths = arguments[:1] if event in OPEN_EVENTS else self._named_tests(event, arguments)
        if paths and all(self._test_passed_path(path, frame) for path in paths):
            return None
        return self._locate(kind, frame)

    def _loaded_file(
        self, event: str, arguments: tuple[Any, ...], frame: FrameType | None
    ) -> tuple[str, str, int] | None:
        """Return the file that an event loads, if it is bytecode of the workspace or was written while tests run.

        Such code escapes inspection: no patch contains it, and installed packages are trusted.
        """
        position = LOAD_EVENTS.get(event)
        text = None if position is None else _path_text(arguments[position])
        if text is None or (event == "open" and (frame is None or _file_of(frame.f_code) != IMPORT_SYSTEM)):
            return None
        if event != "open":
            kind = "library" if self._is_new(text) else ""
        elif self._is_bytecode(text, frame):
            kind = "bytecode" if any(_statuses(text)) else ""
        else:
            kind = "dependency" if _absolute(text).startswith(self._installed) and self._is_new(text) else ""
        place = text[len(self._workspace) :] if text.startswith(self._workspace) else text  # noqa: FURB188
        return (f"load {kind} {place}", place, 0) if kind else None

    def _is_bytecode(self, path: str, frame: FrameType | None) -> bool:
        """Return whether the import system opens a file as bytecode of a module in the workspace, wherever it is."""
        caller = None if frame is None else frame.f_back
        if caller is None or _name_of(caller.f_code) != "get_code" or _file_of(caller.f_code) != IMPORT_SYSTEM:
            return False
        source = caller.f_locals.get("source_path", path)  # a loader without this variable loads only bytecode
        is_own = type(source) is str and source.startswith(self._workspace) and not source.startswith(self._installed)
        return is_own and caller.f_locals.get("bytecode_path", path) == path

    def _is_new(self, path: str) -> bool:
        """Return whether a file was written since the runner started. No program can set the time of a change."""
        return any(status.st_ctime >= self._started for status in _statuses(path))

    def _classify(self, event: str, arguments: tuple[Any, ...]) -> str:
        """Return what kind of tampering an event may be, or an empty string."""
        if event in OPEN_EVENTS:
            return self._classify_open(event, arguments)
        if event in MOVE_EVENTS:
            # A guarded file, or a folder above one, is removed or gets other content.
            texts = [text for text in map(_path_text, arguments[:2]) if text is not None]
            moved = any(_inode(text) in self._guarded_inodes or self._is_above(_absolute(text)) for text in texts)
            return "change test" if moved else ""
        if event in MEMORY_EVENTS:
            return event
        return "open test" if self._named_tests(event, arguments) else ""

    def _named_tests(self, event: str, arguments: tuple[Any, ...]) -> list[str]:
        """Return the words of a command that name a file of the tests."""
        if event not in PROCESS_EVENTS:
            return []
        folder = _path_text(arguments[2]) if event == "subprocess.Popen" else None
        words = [word for text in _texts(arguments[:3]) for word in _split_words(text)]
        return [word for word in words if self._names_test(word, folder or ".")]

    def _names_test(self, word: str, folder: str) -> bool:
        """Return whether a word is the path of a test, or has the name of one and is no other file."""
        inode = _inode(word if word.startswith("/") else f"{folder}/{word}")
        return inode in self._guarded_inodes or (inode is None and any(name in word for name in self._guarded_names))

    def _classify_open(self, event: str, arguments: tuple[Any, ...]) -> str:
        path = arguments[0] if arguments else None
        text = _path_text(path)
        if text is None:
            return "" if type(path) in (int, bool, type(None)) else "open object"
        if event != "open":
            return ""
        # `os.open`, whose events have no mode, takes a path relative to a directory descriptor, which the event does not tell.
        relative = arguments[1] is None and not text.startswith("/")
        for status in _statuses(text, _open_descriptors() if relative else ()):
            guarded = self._guarded_inodes.get((status.st_dev, status.st_ino))
            if guarded is not None:
                return "open test" if guarded.endswith(".py") else "open data " + guarded[len(self._workspace) :]
            if status.st_dev == self._proc_device and status.st_mode == _MEMORY_MODE:
                return "open memory"
        return ""

    def _is_above(self, path: str) -> bool:
        return any(guarded.startswith(path + "/") for guarded in self._guarded)

    def _test_passed_path(self, path: Any, frame: FrameType | None) -> bool:  # noqa: ANN401
        """Return whether the running test passed its own file, a data file or a folder of tests to the code it tests.

        Tests of readers and parsers do so.
        """
        opened = _absolute(_path_text(path) or "")
        entry: FrameType | None = None
        while frame is not None:
            if not self._is_genuine(frame.f_code):
                entry = frame
            elif self._is_test(file := _file_of(frame.f_code)):
                passed: set[str] = set() if entry is None else _path_arguments(entry)
                is_passed = opened in passed and (file == opened or not opened.endswith(".py"))
                return is_passed or any(
                    self._is_test(folder + "/") and opened.startswith(folder + "/") for folder in passed
                )
            frame = frame.f_back
        return False

    def _locate(self, kind: str, frame: FrameType | None) -> tuple[str, str, int] | None:
        """Return kind, file and line of an event if code under test is responsible for it.

        The first frame that is code under test is responsible, unless a genuine test comes before it. The standard library
        acts on behalf of its caller, and so do installed packages for some events. Memory events count only for direct
        calls. Code without a file is responsible if nothing else is: libraries make such code for their callers.
        """
        direct = kind in MEMORY_EVENTS
        purpose, generated, outermost = "", None, frame
        while frame is not None:
            outermost = frame
            file = _file_of(frame.f_code)
            if file.startswith("<") and not file.startswith(FROZEN):
                generated = generated or frame
            elif not self._is_genuine(frame.f_code):
                return self._place(kind, purpose, frame)
            elif self._is_test(file) or (direct and not file.startswith(FROZEN)):
                break
            elif file.startswith(self._installed) and (purpose or kind not in ON_BEHALF):
                return None
            elif purpose or file.endswith("/linecache.py"):
                purpose = self._purpose(frame.f_code)
            frame = frame.f_back
        if frame is None and not purpose and kind in ON_BEHALF and not self._is_main(outermost):
            generated = generated or outermost  # a thread without a test: code under test started it
        return None if generated is None else self._place(kind, purpose, generated)

    def _is_main(self, frame: FrameType | None) -> bool:
        return frame is None or _file_of(frame.f_code).startswith(self._runner_folder)

    def _place(self, kind: str, purpose: str, frame: FrameType) -> tuple[str, str, int]:
        file = _file_of(frame.f_code)
        # Python 3.8 has no `removeprefix`.
        place = file[len(self._workspace) :] if file.startswith(self._workspace) else file  # noqa: FURB188
        return (f"{kind} {purpose}" if purpose else kind, place, frame.f_lineno)

    def _purpose(self, code: CodeType) -> str:
        """Return why the library reads source lines: the outermost of its functions is the one that was called."""
        reads_source = _name_of(code) in SOURCE_READERS.get(_file_of(code).rpartition("/")[2], ())
        reads_source &= self.testing or _name_of(code) not in STACK_FORMATTERS
        return "line by line" if reads_source else "for a source line"

    def _is_genuine(self, code: CodeType) -> bool:
        """Return whether code is not under test: it comes from the frozen module, library file or test that it names."""
        if self._genuine.get(id(code)) is code:
            return True
        file = _file_of(code)
        genuine = any(_is_same(code, other) for other in self._known_code.get((file, _name_of(code)), ()))
        if genuine:
            self._genuine[id(code)] = code
        elif file not in self._read_files:
            self._read_files.add(file)
            self._add_known(file, self._read_code(file))
            return self._is_genuine(code)
        return genuine

    def _add_known(self, file: str, module: CodeType | None) -> None:
        pending = [] if module is None else [module]
        while pending:
            code = pending.pop()
            self._known_code.setdefault((file, code.co_name), []).append(code)
            pending += [constant for constant in code.co_consts if type(constant) is CodeType]

    def _add_rewritten(self, module: CodeType, frame: FrameType | None) -> None:
        """Recognise a test or plugin that pytest executes after it has rewritten what its file contains."""
        if frame is not None and _file_of(frame.f_code).endswith(REWRITER) and self._is_genuine(frame.f_code):
            file = _file_of(module)
            self._add_known(file, module if self._is_trusted_file(file) else None)

    def _read_code(self, file: str) -> CodeType | None:
        """Return the code of a frozen module or a file, or None if it is under test."""
        try:
            if file.startswith(FROZEN):
                name = file[len(FROZEN) : -1]
                return get_frozen_object(FROZEN_NAMES.get(name, name))
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


def _bytecode_file(file: str) -> str:
    folder, _, name = file.rpartition("/")
    return f"{folder}/__pycache__/{name.rpartition('.')[0]}.{_BYTECODE_SUFFIX}"


def _cached_code(file: str, bytecode: str) -> CodeType | None:
    """Return the code of a module from its bytecode file, or None if that does not belong to the source as it is.

    Compiling a large module of the standard library takes longer than many tests.
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
        data = source.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # code is compared without its constants
    # As text, because the encoding that a file declares may be a codec of the code under test.
    return compile(text.lstrip("\ufeff"), file, "exec", dont_inherit=True)


def _is_same(code: CodeType, other: CodeType) -> bool:
    """Return whether code does the same as other code of the same name, wherever it stands."""
    names = code.co_names == other.co_names and code.co_varnames == other.co_varnames
    return names and code.co_code == other.co_code


def _path_arguments(frame: FrameType) -> set[str]:
    """Return the arguments of a call that are paths, or lists of paths."""
    code = frame.f_code
    values: list[Any] = [
        frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    ]
    return {_absolute(text) for text in _texts(tuple(values))}


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
    own = [base for base in _CLASS_MRO.__get__(kind) if base not in _PATH_BASES]
    return not any(type(name) is not str or name in _PATH_NAMES for base in own for name in _CLASS_DICT.__get__(base))


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
