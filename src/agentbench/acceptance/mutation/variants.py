"""Creates wrong variants of a reference: reverted hunks, parts of it, and small mutations of its code. Pure."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter

from agentbench.acceptance.mutation.mutations import Change, enclosing, meaning, python_edits, text_changes
from agentbench.contract.scorers import DEFAULT_TESTS
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.tree.entry import FileWrite, Tree
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.line_diff import LineDiff, Region, split_lines

MAX_FILE = 1 * MIB
DEFAULT_VARIANTS = 20
_PROSE_SUFFIXES = (b".md", b".rst", b".txt", b".adoc")


@dataclass(frozen=True, slots=True)
class Variant:
    """The reference with one error. `tier` is the distance from the lines that the reference changed."""

    operator: str
    path: bytes
    line: int
    what: str
    tier: int
    writes: tuple[FileWrite, ...]
    """Everything to write to the base repository."""

    @property
    def digest(self) -> str:
        parts = [b"\x00".join((write.path, write.content or b"-", write.symlink or b"-")) for write in self.writes]
        return sha256_hex(b"\x01".join(parts))


@dataclass(frozen=True, slots=True)
class _File:
    """One file of the reference, as lines before and after."""

    write: FileWrite
    old: list[bytes]
    new: list[bytes]
    regions: list[Region]

    @property
    def content(self) -> bytes:
        return b"".join(self.new)

    @property
    def python(self) -> bool:
        return self.write.path.endswith((b".py", b".pyi"))

    def changed_lines(self) -> frozenset[int]:
        return frozenset(line + 1 for _i1, _i2, j1, j2 in self.regions for line in range(j1, j2))

    def keeping(self, kept: Sequence[int]) -> bytes:
        """Return the file with only some of its regions changed."""
        lines: list[bytes] = []
        at = 0
        for index, (i1, i2, j1, j2) in enumerate(self.regions):
            lines += self.new[at:j1]
            lines += self.new[j1:j2] if index in kept else self.old[i1:i2]
            at = j2
        return b"".join([*lines, *self.new[at:]])


def variants(
    base: Tree, writes: Sequence[FileWrite], *, protected: Sequence[str] = (), wanted: int = DEFAULT_VARIANTS
) -> tuple[Variant, ...]:
    """Return up to `wanted` variants: near ones first, operators in turn, the same for the same input."""
    files = _files(base, writes, protected)
    meanings = _KnownMeanings(files)
    seen: set[str] = set()
    chosen: list[Variant] = []
    for tier in (0, 1, 2):
        queues = _queues(_all_variants(files, tuple(writes), tier), wanted)
        while len(chosen) < wanted and any(queues):
            # Compared only when their turn comes: most variants of a long file are never needed.
            batch = [variant for queue in queues if (variant := _next_new(queue, meanings, seen)) is not None]
            chosen += batch
    return tuple(chosen[: max(wanted, 0)])


def _queues(variants: Iterator[Variant], wanted: int) -> list[list[Variant]]:
    """Return variants per operator, ordered by their content alone, and bounded."""
    by_operator: dict[str, list[tuple[str, Variant]]] = defaultdict(list)
    bound = 4 * max(wanted, DEFAULT_VARIANTS)
    for variant in variants:
        kept = by_operator[variant.operator]
        kept.append((variant.digest, variant))
        if len(kept) >= 2 * bound:
            kept.sort(key=itemgetter(0))
            del kept[bound:]
    return [
        [variant for _, variant in sorted(by_operator[name], key=itemgetter(0))][:bound] for name in sorted(by_operator)
    ]


def _next_new(queue: list[Variant], meanings: _KnownMeanings, seen: set[str]) -> Variant | None:
    while queue:
        variant = queue.pop(0)
        if variant.digest not in seen and not meanings.same(variant):
            seen.add(variant.digest)
            return variant
    return None


def _files(base: Tree, writes: Sequence[FileWrite], protected: Sequence[str]) -> list[_File]:
    """Return files worth mutating. Tests are restored before grading. Prose is used only if there is nothing else."""
    globs, diff = Globs(protected), LineDiff()
    files: list[_File] = []
    for write in writes:
        name = write.path.decode("utf-8", "replace")
        if write.content is None or len(write.content) > MAX_FILE or b"\x00" in write.content:
            continue
        if globs.match(write.path) or any(fnmatchcase(name, pattern) for pattern in DEFAULT_TESTS):
            continue
        try:
            old = split_lines(base.read(write.path, max_bytes=MAX_FILE))
        except OSError:
            old = []
        new = split_lines(write.content)
        files.append(_File(write, old, new, diff.regions(old, new)))
    code = [file for file in files if not file.write.path.lower().endswith(_PROSE_SUFFIXES)]
    return code or files


def _all_variants(files: Sequence[_File], writes: tuple[FileWrite, ...], tier: int) -> Iterator[Variant]:
    total = sum(len(file.regions) for file in files)
    for file in files:
        if tier == 0:
            yield from _reverted(file, writes, alone=len(files) == 1, only_hunk=total == 1)
        yield from _mutated(file, writes, tier)


def _reverted(file: _File, writes: tuple[FileWrite, ...], *, alone: bool, only_hunk: bool) -> Iterator[Variant]:
    if not alone:
        rest = tuple(write for write in writes if write.path != file.write.path)
        yield Variant("reverted_file", file.write.path, 1, "file reverted to the base repository", 0, rest)
    for index, (_i1, _i2, j1, j2) in enumerate(file.regions):
        others = [other for other in range(len(file.regions)) if other != index]
        if not only_hunk:
            change = Change("reverted_hunk", j1 + 1, "hunk reverted to the base repository", file.keeping(others))
            yield _variant(file, writes, change, 0)
            if len(file.regions) > 2:
                change = Change("partial_reference", j1 + 1, "all other hunks reverted", file.keeping([index]))
                yield _variant(file, writes, change, 0)
        for cut in sorted({j1 + 1, (j1 + j2) // 2, j2 - 1}):
            if j1 < cut < j2:
                content = b"".join([*file.new[:cut], *file.new[j2:]])
                yield _variant(file, writes, Change("partial_reference", cut + 1, "hunk cut short", content), 0)


def _mutated(file: _File, writes: tuple[FileWrite, ...], tier: int) -> Iterator[Variant]:
    changed = file.changed_lines()
    near = enclosing(file.content, changed) if file.python else frozenset(
        near for line in changed for near in range(line - 10, line + 11)
    )  # fmt: skip

    def wanted(line: int) -> bool:
        return tier == (0 if line in changed else 1 if line in near else 2)

    changes = python_edits(file.content, wanted) if file.python else text_changes(file.new)
    yield from (_variant(file, writes, change, tier) for change in changes if wanted(change.line))


def _variant(file: _File, writes: tuple[FileWrite, ...], change: Change, tier: int) -> Variant:
    mutated = dataclasses.replace(file.write, content=change.content)
    rest = tuple(mutated if write.path == file.write.path else write for write in writes)
    return Variant(change.operator, file.write.path, change.line, change.what, tier, rest)


class _KnownMeanings:
    """Detects variants that equal the reference or the base repository, or are not valid programs.

    Checks refuse an invalid program too easily.
    """

    def __init__(self, files: Sequence[_File]) -> None:
        self._files = [
            (file, self._meaning_of(file, file.content), self._meaning_of(file, b"".join(file.old))) for file in files
        ]

    @staticmethod
    def _meaning_of(file: _File, content: bytes) -> bytes | str | None:
        # An empty line is layout in every language that is mutated by lines, and in prose nearly always.
        return meaning(content) if file.python else b"".join(line for line in split_lines(content) if line.strip())

    def same(self, variant: Variant) -> bool:
        contents = {write.path: write.content for write in variant.writes}
        reference = base = True
        for file, new, old in self._files:
            content = contents.get(file.write.path)
            now = old if content is None else new if content == file.content else self._meaning_of(file, content)
            if now is None:
                return True
            reference &= now == new
            base &= now == old
        return reference or base
