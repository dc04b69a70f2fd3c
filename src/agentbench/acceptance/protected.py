"""Compose the tree of a grading replica: base repository, patch without protected files, hidden files. Pure.

A protected file that the patch changed or deleted stays as in the base repository. Restored and dropped files are
listed so that they can be reported; they cost nothing.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from agentbench.contract.task_files import HiddenFile
from agentbench.core.dataclass import dataclass
from agentbench.tree.entry import Entry, FileWrite
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.paths import parents

RUNNER_FILES = frozenset({b"conftest.py", b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml", b"tox.ini"})
"""Names that configure the test runner in any folder: only the base repository's own files count."""
ENVIRONMENT = b"pyvenv.cfg"
"""Marks a virtual environment made by setup: the runner may be in it, and an agent's installs do not count."""
TEST_FOLDERS = frozenset({b"tests", b"test"})
CODE = (b".py", b".so", b".pyd")
BYTECODE = ("**/__pycache__/**", "**/*.pyc", "**/*.pyo")


@dataclass(frozen=True, slots=True)
class Protection:
    """The paths that a patch does not decide.

    `globs` is the contract's own list. Always protected: `files`, the files of the required tests; everything beside
    them in a folder named tests (helpers and data); the files that configure the test runner. Tests that the patch adds
    are not graded: they would run in one process with the required tests.
    """

    globs: tuple[str, ...] = ()
    files: frozenset[bytes] = frozenset()
    generated: tuple[str, ...] = ()
    _globs: Globs = field(init=False)
    _generated: Globs = field(init=False)
    _folders: frozenset[bytes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_globs", Globs(self.globs))
        object.__setattr__(self, "_generated", Globs((*self.generated, *BYTECODE)))
        object.__setattr__(self, "_folders", frozenset(_test_folder(file) for file in self.files) - {b""})

    def is_generated(self, path: bytes) -> bool:
        return self._generated.match(path)

    def restores(self, path: bytes) -> bool:
        """Return whether a file of the base repository is restored."""
        return self._configures(path) or path in self.files or self._beside_tests(path)

    def keeps_out(self, path: bytes, *, link: bool = False) -> bool:
        """Return whether the patch may not add this file. A symlink may lead to a package, whatever its name."""
        if path in self.files:
            return False
        return self._configures(path) or ((link or path.endswith(CODE)) and self._beside_tests(path))

    def guards(self, path: bytes, *, there: bool) -> bool:
        """Return whether a build may not change this file either. `there`: whether it existed before the build."""
        return not self.is_generated(path) and (self.restores(path) if there else self.keeps_out(path))

    def _configures(self, path: bytes) -> bool:
        return posixpath.basename(path) in RUNNER_FILES or self._globs.match(path)

    def _beside_tests(self, path: bytes) -> bool:
        return any(path.startswith(folder + b"/") for folder in self._folders)

    def is_other_test(self, path: bytes) -> bool:
        """Return whether a file is named like a test but holds no required one."""
        name = posixpath.basename(path)
        named_like_test = name.endswith(b".py") and (name.startswith(b"test_") or name.endswith(b"_test.py"))
        return named_like_test and bool(self.files) and path not in self.files


def _test_folder(file: bytes) -> bytes:
    """Return the outermost folder named tests above a file, or an empty path."""
    parts = file.split(b"/")[:-1]
    for count, part in enumerate(parts, start=1):
        if part in TEST_FOLDERS:
            return b"/".join(parts[:count])
    return b""


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class GradedTree:
    """The writes that turn the base repository into the replica, and the parts of the patch that are not among them."""

    writes: tuple[FileWrite, ...] = ()
    restored: tuple[bytes, ...] = ()
    """Files of the base repository that the patch changed or deleted."""
    dropped: tuple[bytes, ...] = ()
    """Files that the patch added and that were left out."""
    overwritten: tuple[bytes, ...] = ()
    """Hidden files that replaced different content written by the patch."""
    generated: tuple[bytes, ...] = ()


def compose(
    base: Mapping[bytes, Entry],
    patch: Sequence[FileWrite],
    protection: Protection,
    hidden: Mapping[bytes, HiddenFile],
) -> GradedTree:
    """Compose the tree of a replica."""
    composition = _Composition(base, {write.path: write for write in patch})
    composition.drop_generated(protection)
    composition.protect(protection)
    for path, file in hidden.items():
        composition.add_hidden(path, file)
    composition.delete_stale_bytecode()
    return composition.result()


class _Composition:
    def __init__(self, base: Mapping[bytes, Entry], changes: dict[bytes, FileWrite]) -> None:
        self._base = base
        self._changes = changes
        self._restored: set[bytes] = set()
        self._dropped: set[bytes] = set()
        self._overwritten: set[bytes] = set()
        self._generated: set[bytes] = set()

    def drop_generated(self, protection: Protection) -> None:
        for path in [path for path in self._changes if protection.is_generated(path)]:
            del self._changes[path]
            self._generated.add(path)

    def protect(self, protection: Protection) -> None:
        environments = tuple(
            posixpath.dirname(path) + b"/" for path in self._base if posixpath.basename(path) == ENVIRONMENT
        )
        for path in list(self._changes):
            installed = path.startswith(environments)
            if path in self._base and (installed or protection.restores(path)):
                del self._changes[path]
                self._restored.add(path)
            elif path not in self._base and (
                installed
                or protection.keeps_out(path, link=self._changes[path].symlink is not None)
                or (protection.is_other_test(path) and not self._in_package(path))
            ):
                self._drop(path)
        for path in self._restored:
            self._make_way(path)

    def _in_package(self, path: bytes) -> bool:
        """Return whether the file is a module of a package: there `ab_test.py` need not be a test."""
        marker = posixpath.join(posixpath.dirname(path), b"__init__.py")
        return marker in self._base or marker in self._changes

    def _drop(self, path: bytes) -> None:
        if self._changes.pop(path).data is not None:
            self._dropped.add(path)

    def _make_way(self, path: bytes) -> None:
        """Drop files of the patch that stand in the way of `path` or of a folder above it."""
        for above in parents(path):
            if above in self._changes and self._changes[above].data is not None:
                self._drop(above)
        for below in [other for other in self._changes if other.startswith(path + b"/")]:
            self._drop(below)

    def add_hidden(self, path: bytes, file: HiddenFile) -> None:
        before = self._changes.get(path)
        if before is not None and before.content != file.content:
            self._overwritten.add(path)
        self._make_way(path)
        for above in parents(path):
            if above in self._base:
                self._changes[above] = FileWrite(above)
        for below in self._base:
            if below.startswith(path + b"/"):
                self._changes[below] = FileWrite(below)
        self._changes[path] = FileWrite(path, content=file.content, executable=file.executable)

    def delete_stale_bytecode(self) -> None:
        """Delete bytecode that setup left for a file which now differs."""
        caches: dict[bytes, list[bytes]] = {}
        for path in self._base:
            if path.endswith(b".pyc"):
                caches.setdefault(_source(path), []).append(path)
        for path in list(self._changes):
            for cached in caches.get(path, ()):
                self._changes[cached] = FileWrite(cached)

    def result(self) -> GradedTree:
        deletions = sorted(path for path, write in self._changes.items() if write.data is None and path in self._base)
        files = sorted(path for path, write in self._changes.items() if write.data is not None)
        return GradedTree(
            writes=(*(FileWrite(path) for path in deletions), *(self._changes[path] for path in files)),
            restored=tuple(sorted(self._restored)),
            dropped=tuple(sorted(self._dropped)),
            overwritten=tuple(sorted(self._overwritten)),
            generated=tuple(sorted(self._generated)),
        )


def bytecode_of(source: bytes, base: Collection[bytes]) -> list[bytes]:
    """Return the bytecode files of a source file in the base repository."""
    return [path for path in base if path.endswith(b".pyc") and _source(path) == source]


def _source(bytecode: bytes) -> bytes:
    """Return the source of a bytecode file: `a/__pycache__/b.cpython-311.pyc` → `a/b.py`."""
    folder, name = posixpath.split(bytecode)
    if posixpath.basename(folder) == b"__pycache__":
        return posixpath.join(posixpath.dirname(folder), name.split(b".")[0] + b".py")
    return bytecode[:-1]


def importable_test_files(
    paths: Collection[bytes], tests: Collection[bytes], installed: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the names under which tests may import files beside them, with the base files of each name.

    An empty file stands for a folder. `installed`: top-level names of the environment, which win over the repository.
    """
    homes: dict[str, set[str]] = {}
    for path in tests:
        parts = _module_parts(path)
        for end in {len(parts), *(count for count, part in enumerate(parts, 1) if part in {"tests", "test"})}:
            homes |= {name: set() for name in _suffixes(parts[:end]) if name.split(".")[0] not in installed}
    lasts = {name.rpartition(".")[2] for name in homes}
    for path in paths:
        parts = _module_parts(path) if path.endswith((b".py", b".so")) else []
        for name in _suffixes(parts) if parts and parts[-1] in lasts else ():
            if name in homes:
                homes[name].add(_text(path))
    for folder in {folder for path in paths for folder in parents(path)}:
        for name in _suffixes(_text(folder).split("/")):
            if name in homes:
                homes[name].add("")
    return {name: tuple(sorted(files)) for name, files in homes.items()}


def _suffixes(parts: Sequence[str]) -> list[str]:
    """Return `a.b` and `b` for a and b: an entry of sys.path may be any folder above."""
    return [".".join(parts[start:]) for start in range(len(parts))]


def _module_parts(path: bytes) -> list[str]:
    *folders, name = _text(path).split("/")
    stem = name.split(".")[0]
    return folders if stem == "__init__" else [*folders, stem]


def top_level_names(paths: Collection[bytes]) -> frozenset[str]:
    """Return the names that Python could import at top level from the repository, whatever folder is on sys.path."""
    packages = {posixpath.dirname(path) for path in paths if posixpath.basename(path) == b"__init__.py"}
    names: set[str] = set()
    for path in paths:
        parts = path.split(b"/")
        if not parts[-1].endswith((b".py", b".so")):
            continue
        for index, part in enumerate(parts):
            if b"/".join(parts[:index]) not in packages:
                names.add(_text(part.split(b".")[0]))
    return frozenset(names)
