"""Measure proxies of a repository's complexity: sizes and import counts, without running anything.

They are proxies, so this module sets no thresholds on them.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from agentbench.contract.task_files import TaskFileError, walk
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.core.python_syntax import parse as parse_python

LABEL = "proxies: sizes and import counts, not a measure of difficulty"
BYTES_PER_TOKEN = 4
"""Rule of thumb for source text; no tokenizer is used."""
MAX_FILES = 200_000
MAX_READ = 4 * 1024 * 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Complexity:
    """Counts over the text files of a tree; imports over its Python files.

    `skipped` counts files that could not be read or parsed, or were too large to parse.
    """

    files: int
    bytes: int
    binary_files: int
    lines: int
    approx_tokens: int
    lines_by_suffix: dict[str, int]
    python_modules: int
    internal_imports: int
    external_packages: tuple[str, ...]
    most_imported: tuple[tuple[str, int], ...]
    skipped: int

    def as_json(self) -> dict[str, Json]:
        return {"label": LABEL, **asdict(self)}


def measure(folder: Path) -> Complexity:
    """Measure a tree, without `.git` and without following symlinks.

    Raises:
        ContractError: the folder cannot be read, or has more than MAX_FILES files.
    """
    tally = _Tally()
    try:
        for path, info in walk(folder):
            relative = PurePosixPath(Path(path).relative_to(folder).as_posix())
            if relative.parts[0] == ".git":
                continue
            tally.files += 1
            if tally.files > MAX_FILES:
                raise ContractError(f"{folder}: more than {MAX_FILES:,} files; not measured")
            if Path(path).is_symlink() or not Path(path).is_file():
                continue
            tally.bytes += info.st_size
            tally.count(Path(path), relative)
    except TaskFileError as error:
        raise ContractError(f"{folder}: {error}") from None
    return tally.result()


class _Tally:
    def __init__(self) -> None:
        self.files = self.bytes = self.binary = self.text_bytes = self.skipped = 0
        self.lines: Counter[str] = Counter()
        self.imports: dict[str, list[str]] = {}
        """Imported names by module. Syntax trees are not kept: those of a large tree would not fit in memory."""

    def count(self, path: Path, relative: PurePosixPath) -> None:
        try:
            with path.open("rb") as stream:
                chunk = stream.read(MAX_READ)
                if b"\0" in chunk[:8192]:
                    self.binary += 1
                    return
                self.text_bytes += path.stat().st_size
                lines = chunk.count(b"\n") + bool(chunk and not chunk.endswith(b"\n"))
                whole = len(chunk) < MAX_READ
                while more := stream.read(_CHUNK):
                    lines += more.count(b"\n")
        except OSError:
            self.skipped += 1
            return
        self.lines[relative.suffix.lower() or "(none)"] += lines
        if relative.suffix == ".py":
            self._parse(chunk, relative, whole=whole)

    def _parse(self, source: bytes, relative: PurePosixPath, *, whole: bool) -> None:
        if not whole:
            self.skipped += 1
            return
        name = _module_name(relative)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.imports[name] = _imports(parse_python(source), name, package=relative.name == "__init__.py")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            # Another Python version, or not Python at all; it still counts as text.
            self.skipped += 1

    def result(self) -> Complexity:
        edges: set[tuple[str, str]] = set()
        external: set[str] = set()
        for name, imports in self.imports.items():
            for imported in imports:
                target = self._resolve(imported)
                if target is None:
                    external.add(imported.partition(".")[0])
                elif target != name:
                    edges.add((name, target))
        fan_in = Counter(target for _, target in edges)
        top = sorted(fan_in.items(), key=lambda item: (-item[1], item[0]))[:5]
        return Complexity(
            files=self.files,
            bytes=self.bytes,
            binary_files=self.binary,
            lines=sum(self.lines.values()),
            approx_tokens=-(-self.text_bytes // BYTES_PER_TOKEN),
            lines_by_suffix=dict(sorted(self.lines.items())),
            python_modules=len(self.imports),
            internal_imports=len(edges),
            external_packages=tuple(sorted(external - sys.stdlib_module_names - {""})),
            most_imported=tuple(top),
            skipped=self.skipped,
        )

    def _resolve(self, imported: str) -> str | None:
        while imported:
            if imported in self.imports:
                return imported
            imported = imported.rpartition(".")[0]
        return None


def _module_name(relative: PurePosixPath) -> str:
    parts = list(relative.with_suffix("").parts)
    if parts[0] in {"src", "lib"} and len(parts) > 1:
        parts = parts[1:]
    if parts[-1] == "__init__" and len(parts) > 1:
        parts = parts[:-1]
    return ".".join(parts)


def _imports(tree: ast.Module, name: str, *, package: bool) -> list[str]:
    imported: list[str] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                above = parts[: len(parts) - node.level + (1 if package else 0)]
                base = ".".join([*above, *([base] if base else [])])
            imported += [f"{base}.{alias.name}" if base else alias.name for alias in node.names]
    return imported


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a module and their parts that contain statements; not expressions, which are most of a tree."""
    remaining: list[ast.AST] = [tree]
    while remaining:
        node = remaining.pop()
        yield node
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            remaining += getattr(node, blocks, ())
