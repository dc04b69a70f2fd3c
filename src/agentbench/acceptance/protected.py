"""What the grading replica holds: R, then Δ without what Δ may not decide, then the hidden files. Pure.

A protected file that Δ changed or deleted is simply not changed: the replica starts from R. Nothing here punishes; what
was taken back or left out is listed, so that it can be reported.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentbench.contract.task_files import HiddenFile
from agentbench.tree.entry import Entry, FileWrite
from agentbench.workspace.diff.compare import Globs

RUNNER_FILES = frozenset({b"conftest.py", b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml", b"tox.ini"})
"""Names that steer the test runner at any level of the tree: only R's own count."""
ENVIRONMENT = b"pyvenv.cfg"
"""What a folder has that setup made an environment of: the runner may be in it, and an agent's installs do not count."""
TEST_FOLDERS = frozenset({b"tests", b"test"})
CODE = (b".py", b".so", b".pyd")
BYTECODE = ("**/__pycache__/**", "**/*.pyc", "**/*.pyo")


@dataclass(frozen=True, slots=True)
class Protection:
    """Which paths Δ does not decide.

    `globs`: the contract's own list. Beside it, always: the files of the required tests, what lies with them in a folder
    called tests (their helpers and data), and the files that steer the runner. Tests that Δ adds are its author's own
    and are not graded: left in, they would be code that runs in one process with the tests that count.
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
        """Whether a file of R stays as it is in R."""
        return self._steers(path) or path in self.files or self._beside_tests(path)

    def keeps_out(self, path: bytes, *, link: bool = False) -> bool:
        """Whether a file that R does not have may not be added by Δ. A link may lead to a package, whatever it is called."""
        if path in self.files:
            return False
        return self._steers(path) or ((link or path.endswith(CODE)) and self._beside_tests(path))

    def guards(self, path: bytes, *, there: bool) -> bool:
        """Whether what Δ runs may not decide about a file either. `there`: whether it was, before anything ran."""
        return not self.is_generated(path) and (self.restores(path) if there else self.keeps_out(path))

    def _steers(self, path: bytes) -> bool:
        return posixpath.basename(path) in RUNNER_FILES or self._globs.match(path)

    def _beside_tests(self, path: bytes) -> bool:
        return any(path.startswith(folder + b"/") for folder in self._folders)

    def is_other_test(self, path: bytes) -> bool:
        """Whether a file has the name of a test and is none of the required ones."""
        name = posixpath.basename(path)
        looks = name.endswith(b".py") and (name.startswith(b"test_") or name.endswith(b"_test.py"))
        return looks and bool(self.files) and path not in self.files


def _test_folder(file: bytes) -> bytes:
    """The outermost folder called tests above a file, or nothing."""
    parts = file.split(b"/")[:-1]
    for count, part in enumerate(parts, start=1):
        if part in TEST_FOLDERS:
            return b"/".join(parts[:count])
    return b""


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True)
class GradedTree:
    """The writes that turn R into the replica, and what of Δ is not among them."""

    writes: tuple[FileWrite, ...] = ()
    restored: tuple[bytes, ...] = ()
    """Files of R that Δ changed or deleted and that are as in R again."""
    dropped: tuple[bytes, ...] = ()
    """Files that Δ added and that were left out."""
    overwritten: tuple[bytes, ...] = ()
    """Hidden paths that Δ had made something else of."""
    generated: tuple[bytes, ...] = ()


def compose(
    base: Mapping[bytes, Entry],
    delta: Sequence[FileWrite],
    protection: Protection,
    hidden: Mapping[bytes, HiddenFile],
) -> GradedTree:
    """Put the replica together."""
    work = _Composition(base, {write.path: write for write in delta})
    work.leave_out_generated(protection)
    work.protect(protection)
    for path, file in hidden.items():
        work.lay_over(path, file)
    work.forget_bytecode()
    return work.result()


class _Composition:
    def __init__(self, base: Mapping[bytes, Entry], changes: dict[bytes, FileWrite]) -> None:
        self._base = base
        self._changes = changes
        self._restored: set[bytes] = set()
        self._dropped: set[bytes] = set()
        self._overwritten: set[bytes] = set()
        self._generated: set[bytes] = set()

    def leave_out_generated(self, protection: Protection) -> None:
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
            self._clear_the_way(path)

    def _in_package(self, path: bytes) -> bool:
        """A module of a package may have any name: `ab_test.py` need not be a test."""
        marker = posixpath.join(posixpath.dirname(path), b"__init__.py")
        return marker in self._base or marker in self._changes

    def _drop(self, path: bytes) -> None:
        if _makes(self._changes.pop(path)):
            self._dropped.add(path)

    def _clear_the_way(self, path: bytes) -> None:
        """Nothing of Δ may stand where a folder above `path` or `path` itself has to be."""
        for above in _above(path):
            if above in self._changes and _makes(self._changes[above]):
                self._drop(above)
        for below in [other for other in self._changes if other.startswith(path + b"/")]:
            self._drop(below)

    def lay_over(self, path: bytes, file: HiddenFile) -> None:
        before = self._changes.get(path)
        if before is not None and before.content != file.content:
            self._overwritten.add(path)
        self._clear_the_way(path)
        for above in _above(path):
            if above in self._base:
                self._changes[above] = FileWrite(above)
        for below in self._base:
            if below.startswith(path + b"/"):
                self._changes[below] = FileWrite(below)
        self._changes[path] = FileWrite(path, content=file.content, executable=file.executable)

    def forget_bytecode(self) -> None:
        """Bytecode that setup left for a file which is another one now."""
        caches: dict[bytes, list[bytes]] = {}
        for path in self._base:
            if path.endswith(b".pyc"):
                caches.setdefault(_source(path), []).append(path)
        for path in list(self._changes):
            for cached in caches.get(path, ()):
                self._changes[cached] = FileWrite(cached)

    def result(self) -> GradedTree:
        deletions = sorted(path for path, write in self._changes.items() if not _makes(write) and path in self._base)
        files = sorted(path for path, write in self._changes.items() if _makes(write))
        return GradedTree(
            writes=(*(FileWrite(path) for path in deletions), *(self._changes[path] for path in files)),
            restored=tuple(sorted(self._restored)),
            dropped=tuple(sorted(self._dropped)),
            overwritten=tuple(sorted(self._overwritten)),
            generated=tuple(sorted(self._generated)),
        )


def _makes(write: FileWrite) -> bool:
    return write.content is not None or write.symlink is not None


def _above(path: bytes) -> Iterable[bytes]:
    parts = path.split(b"/")
    return (b"/".join(parts[:count]) for count in range(1, len(parts)))


def bytecode_of(source: bytes, base: Collection[bytes]) -> list[bytes]:
    """What setup left in R of a file's bytecode."""
    return [path for path in base if path.endswith(b".pyc") and _source(path) == source]


def _source(bytecode: bytes) -> bytes:
    """`a/__pycache__/b.cpython-311.pyc` → `a/b.py`."""
    folder, name = posixpath.split(bytecode)
    if posixpath.basename(folder) == b"__pycache__":
        return posixpath.join(posixpath.dirname(folder), name.split(b".")[0] + b".py")
    return bytecode[:-1]


def support_of(
    paths: Collection[bytes], tests: Collection[bytes], taken: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """By what names tests may import what lies with them, and which files of R have that name (empty: a folder).

    `taken`: names that are installed, whatever R has.
    """
    homes: dict[str, set[str]] = {}
    for path in tests:
        parts = _module_parts(path)
        for end in {len(parts), *(count for count, part in enumerate(parts, 1) if part in {"tests", "test"})}:
            homes |= {name: set() for name in _suffixes(parts[:end]) if name.split(".")[0] not in taken}
    lasts = {name.rpartition(".")[2] for name in homes}
    for path in paths:
        parts = _module_parts(path) if path.endswith((b".py", b".so")) else []
        for name in _suffixes(parts) if parts and parts[-1] in lasts else ():
            if name in homes:
                homes[name].add(_text(path))
    folders = {b"/".join(parts[:end]) for parts in (path.split(b"/") for path in paths) for end in range(1, len(parts))}
    for folder in folders:
        for name in _suffixes(_text(folder).split("/")):
            if name in homes:
                homes[name].add("")
    return {name: tuple(sorted(found)) for name, found in homes.items()}


def _suffixes(parts: Sequence[str]) -> list[str]:
    """`a.b` and `b` of a and b: wherever a path that is searched may begin."""
    return [".".join(parts[start:]) for start in range(len(parts))]


def _module_parts(path: bytes) -> list[str]:
    *folders, name = _text(path).split("/")
    stem = name.split(".")[0]
    return folders if stem == "__init__" else [*folders, stem]


def top_level_names(paths: Collection[bytes]) -> frozenset[str]:
    """Names of R that Python could import at top level, whatever folder is put on its path."""
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
