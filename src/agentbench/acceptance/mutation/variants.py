"""Wrong variants of a reference: hunks taken back, half of it, and its code changed in small ways."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import itemgetter

from agentbench.acceptance.mutation.change import Change
from agentbench.acceptance.mutation.line_mutations import text_changes
from agentbench.acceptance.mutation.python_mutations import enclosing, meaning, python_edits
from agentbench.contract.scorers import DEFAULT_TESTS
from agentbench.core.canonical import sha256_hex
from agentbench.core.command import MIB
from agentbench.tree.entry import FileWrite, Tree
from agentbench.workspace.diff.compare import Globs
from agentbench.workspace.diff.line_diff import LineDiff, Region, split_lines

MAX_FILE = 1 * MIB
WANTED = 20
_PROSE = (".md", ".rst", ".txt", ".adoc")


@dataclass(frozen=True, slots=True)
class Variant:
    """The reference with one thing wrong. `tier`: how far from what the reference itself changed."""

    operator: str
    path: bytes
    line: int
    what: str
    tier: int
    writes: tuple[FileWrite, ...]
    """Everything to do to R."""

    @property
    def digest(self) -> str:
        parts = [b"\x00".join((one.path, one.content or b"-", one.symlink or b"-")) for one in self.writes]
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
        """With only some of the regions changed."""
        lines: list[bytes] = []
        at = 0
        for index, (i1, i2, j1, j2) in enumerate(self.regions):
            lines += self.new[at:j1]
            lines += self.new[j1:j2] if index in kept else self.old[i1:i2]
            at = j2
        return b"".join([*lines, *self.new[at:]])


def variants(
    base: Tree, writes: Sequence[FileWrite], *, protected: Sequence[str] = (), wanted: int = WANTED
) -> tuple[Variant, ...]:
    """As many as are wanted, if there are so many: near ones first, all operators in turn, the same every time."""
    files = _files(base, writes, protected)
    meanings = _Meanings(files)
    seen: set[str] = set()
    chosen: list[Variant] = []
    for tier in (0, 1, 2):
        queues = _queues(_all(files, tuple(writes), tier), wanted)
        while len(chosen) < wanted and any(queues):
            # Looked at only when their turn comes: most of a long file's are never needed.
            turn = [one for queue in queues if (one := _next(queue, meanings, seen)) is not None]
            chosen += turn
    return tuple(chosen[: max(wanted, 0)])


def _queues(made: Iterator[Variant], wanted: int) -> list[list[Variant]]:
    """Per operator, in an order that only the content decides; no more than could ever be looked at."""
    by_operator: dict[str, list[tuple[str, Variant]]] = defaultdict(list)
    bound = 4 * max(wanted, WANTED)
    for one in made:
        kept = by_operator[one.operator]
        kept.append((one.digest, one))
        if len(kept) >= 2 * bound:
            kept.sort(key=itemgetter(0))
            del kept[bound:]
    return [[one for _, one in sorted(by_operator[name], key=itemgetter(0))][:bound] for name in sorted(by_operator)]


def _next(queue: list[Variant], meanings: _Meanings, seen: set[str]) -> Variant | None:
    while queue:
        one = queue.pop(0)
        if one.digest not in seen and not meanings.same(one):
            seen.add(one.digest)
            return one
    return None


def _files(base: Tree, writes: Sequence[FileWrite], protected: Sequence[str]) -> list[_File]:
    """Texts worth changing: tests are put back before grading, and prose decides nothing unless there is nothing else."""
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
    code = [one for one in files if not one.write.path.lower().endswith(tuple(end.encode() for end in _PROSE))]
    return code or files


def _all(files: Sequence[_File], writes: tuple[FileWrite, ...], tier: int) -> Iterator[Variant]:
    total = sum(len(file.regions) for file in files)
    for file in files:
        if tier == 0:
            yield from _taken_back(file, writes, alone=len(files) == 1, only_hunk=total == 1)
        yield from _small(file, writes, tier)


def _taken_back(file: _File, writes: tuple[FileWrite, ...], *, alone: bool, only_hunk: bool) -> Iterator[Variant]:
    if not alone:
        rest = tuple(one for one in writes if one.path != file.write.path)
        yield Variant("reverted_file", file.write.path, 1, "the file is as in R", 0, rest)
    for index, (_i1, _i2, j1, j2) in enumerate(file.regions):
        others = [one for one in range(len(file.regions)) if one != index]
        if not only_hunk:
            yield _with(file, writes, Change("reverted_hunk", j1 + 1, "one hunk is as in R", file.keeping(others)), 0)
            if len(file.regions) > 2:
                yield _with(
                    file, writes, Change("partial_reference", j1 + 1, "only this hunk", file.keeping([index])), 0
                )
        for cut in sorted({j1 + 1, (j1 + j2) // 2, j2 - 1}):
            if j1 < cut < j2:
                content = b"".join([*file.new[:cut], *file.new[j2:]])
                yield _with(file, writes, Change("partial_reference", cut + 1, "the hunk ends early", content), 0)


def _small(file: _File, writes: tuple[FileWrite, ...], tier: int) -> Iterator[Variant]:
    changed = file.changed_lines()
    near = enclosing(file.content, changed) if file.python else frozenset(
        near for line in changed for near in range(line - 10, line + 11)
    )  # fmt: skip

    def wanted(line: int) -> bool:
        return tier == (0 if line in changed else 1 if line in near else 2)

    made = python_edits(file.content, wanted) if file.python else text_changes(file.new)
    yield from (_with(file, writes, change, tier) for change in made if wanted(change.line))


def _with(file: _File, writes: tuple[FileWrite, ...], change: Change, tier: int) -> Variant:
    made = dataclasses.replace(file.write, content=change.content)
    rest = tuple(made if one.path == file.write.path else one for one in writes)
    return Variant(change.operator, file.write.path, change.line, change.what, tier, rest)


class _Meanings:
    """Tells variants that are the reference or R again, or no program at all, which would be too easy to refuse."""

    def __init__(self, files: Sequence[_File]) -> None:
        self._files = [(file, self._of(file, file.content), self._of(file, b"".join(file.old))) for file in files]

    @staticmethod
    def _of(file: _File, content: bytes) -> bytes | str | None:
        # An empty line is layout in every language that has its lines changed here, and in prose nearly always.
        return meaning(content) if file.python else b"".join(line for line in split_lines(content) if line.strip())

    def same(self, variant: Variant) -> bool:
        made = {one.path: one.content for one in variant.writes}
        reference = base = True
        for file, new, old in self._files:
            content = made.get(file.write.path)
            now = old if content is None else new if content == file.content else self._of(file, content)
            if now is None:
                return True
            reference &= now == new
            base &= now == old
        return reference or base
