"""Tells code that setup or the task brought from code under test, whatever file it claims to come from."""

from __future__ import annotations

import os
import posix
import sys
from _imp import get_frozen_object
from collections.abc import Callable, Iterable, Iterator, Mapping
from gc import get_objects, unfreeze
from importlib.util import MAGIC_NUMBER
from marshal import loads
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentbench.acceptance.runner.files import Files  # not importable where the runner runs

# Bound before any code under test runs. Everything called while it runs is implemented by the interpreter itself.
_stat = posix.stat
_getframe = sys._getframe  # noqa: SLF001
FROZEN = "<frozen "
REWRITER = "/_pytest/assertion/rewrite.py"
_BYTECODE_SUFFIX = f"{sys.implementation.cache_tag}{f'.opt-{sys.flags.optimize}' if sys.flags.optimize else ''}.pyc"


class GenuineCode:
    """Recognises code that is not under test: of the runner, the standard library, packages that setup installed, tests.

    Code of a file counts only if the file holds it, because code can be made under any name.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        runner_folder: str,
        is_test: Callable[[str], bool],
        trusted_paths: Iterable[str],
        files: Files,
    ) -> None:
        self._files = files
        self.installed = tuple(files.absolute(path) + "/" for path in trusted_paths if "-packages" in path)
        """Folders of installed packages. Tests may make others with such a name."""
        self._setup_packages = frozenset(job["pinned"]) if job["mode"] != "survey" else None
        """Packages that setup installed, which are not code under test. None means every installed package."""
        self._workspace = job["workspace"].rstrip("/") + "/"
        self._patched_inodes = frozenset(files.inode(self._workspace + path) for path in job["written"])
        """Files that the patch wrote. They are code under test wherever they are moved."""
        self._stdlib_folder = os.path.dirname(os.__file__) + "/"  # noqa: PTH120
        self._runner_folder = runner_folder.rstrip("/") + "/"
        self._has_test_name = is_test
        self._recognised: dict[int, CodeType] = {}
        """Code that is not under test, by its identity: first all that was loaded before code under test."""
        self._code_of_files: dict[tuple[str, str], list[CodeType]] = {}
        """Code that files hold which are not under test, by file and name."""
        self._read_files: set[str] = set()
        self._add_loaded()

    def __contains__(self, code: CodeType) -> bool:
        """Return whether code is not under test: it was loaded before, or comes from the library file or test that it names."""
        if self._recognised.get(id(code)) is code:
            return True
        file = self.file_of(code)
        if file not in self._read_files:
            self._read_files.add(file)
            self._add_file(file, self._read(file))
        name = str.__str__(code.co_name)
        genuine = any(_is_same(code, other) for other in self._code_of_files.get((file, name), ()))
        if genuine:
            self._recognised[id(code)] = code
        return genuine

    @staticmethod
    def file_of(code: CodeType) -> str:
        """Return the file that code names. Methods of a subclass of `str` would belong to the code under test."""
        return str.__str__(code.co_filename)

    def is_test(self, path: str) -> bool:
        return path.startswith(self._workspace) and self._has_test_name(path[len(self._workspace) :])

    def is_runner(self, code: CodeType) -> bool:
        return self.file_of(code).startswith(self._runner_folder)

    def add_rewritten(self, module: CodeType, frame: FrameType | None) -> None:
        """Recognise a test or plugin that pytest executes after it has rewritten what its file contains."""
        if frame is not None and self.file_of(frame.f_code).endswith(REWRITER) and frame.f_code in self:
            file = self.file_of(module)
            self._add_file(file, module if self._is_trusted(file) else None)

    def _add_loaded(self) -> None:
        """Recognise the runner, pytest and everything else that is loaded so far."""
        unfreeze()  # frozen objects are not listed
        loaded = [function.__code__ for function in get_objects() if type(function) is FunctionType]
        frame: FrameType | None = _getframe()
        while frame is not None:
            loaded.append(frame.f_code)
            frame = frame.f_back
        files = {code.co_filename for code in loaded}
        trusted = {file for file in files if file.startswith((FROZEN, self._runner_folder)) or self._is_trusted(file)}
        self._recognised.update((id(code), code) for code in _with_nested(loaded) if code.co_filename in trusted)

    def _add_file(self, file: str, module: CodeType | None) -> None:
        """Recognise the code of a file. Bytecode names the place where it was compiled, which may be another."""
        for code in _with_nested([] if module is None else [module]):
            self._code_of_files.setdefault((file, code.co_name), []).append(code)

    def _read(self, file: str) -> CodeType | None:
        """Return the code of a frozen module or a file, or None if it is under test."""
        try:
            if file.startswith(FROZEN):
                return get_frozen_object(file[len(FROZEN) : -1])
            if not self._is_trusted(file):
                return None
            bytecode = _bytecode_file(file)
            return (None if self._files.is_new(bytecode) else _cached_code(file, bytecode)) or _compiled(file)
        except (OSError, ImportError, ValueError, EOFError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None

    def _is_trusted(self, file: str) -> bool:
        """Return whether setup or the task wrote a file: standard library, installed package or test."""
        installed = next((folder for folder in self.installed if file.startswith(folder)), "")
        if installed:
            package = file[len(installed) :].partition("/")[0].partition(".")[0]
            trusted = self._setup_packages is None or package in self._setup_packages
        else:
            trusted = file.startswith(self._stdlib_folder) or self.is_test(file)
        return trusted and not self._files.is_new(file) and self._files.inode(file) not in self._patched_inodes


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
