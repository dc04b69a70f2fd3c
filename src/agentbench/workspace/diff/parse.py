"""Unified and git diffs, read as hostile input: every entry is understood and checked, or the whole is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.apply import Plan, apply, plan
from agentbench.workspace.diff.binary import decode_line, delta_target_size, inflate
from agentbench.workspace.diff.file_patch import SYMLINK, Binary, FilePatch, Op, PatchLimits, changed_paths
from agentbench.workspace.diff.headers import DEV_NULL, Head, file_line, pair, read_extended, strip
from agentbench.workspace.diff.hunks import ADD, CONTEXT, REMOVE, Hunk
from agentbench.workspace.diff.paths import path_problem, shown

__all__ = ["FilePatch", "Op", "PatchLimits", "Plan", "apply", "changed_paths", "parse", "plan"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_BINARY = re.compile(rb"(literal|delta) (\d{1,12})")
_CONFLICT = (
    re.compile(rb"<{7}(?:[ \r\n]|$)"),
    re.compile(rb"={7}\r?$", re.MULTILINE),
    re.compile(rb">{7}(?:[ \r\n]|$)"),
)
_EPOCH = re.compile(rb"\t(?:1970-01-01 |1969-12-31 |Thu Jan  1 |Thu Jan 01 |Wed Dec 31 )")


def parse(patch: bytes, limits: PatchLimits | None = None) -> tuple[FilePatch, ...]:
    """The files of a patch. Text around the diffs (a mail, a commit message) is skipped; no patch at all is ().

    Raises:
        PatchInvalid: anything in it cannot be understood, or may not be in a patch.
    """
    limits = limits or PatchLimits()
    if len(patch) > limits.patch_bytes:
        raise PatchInvalid(f"the patch has {len(patch)} bytes, more than {limits.patch_bytes}")
    if patch.count(b"\n") > limits.lines:
        raise PatchInvalid(f"the patch has more than {limits.lines} lines")
    reader = _Reader(patch, limits)
    found: list[FilePatch] = []
    for file_patch in reader.files():
        found.append(file_patch)
        if len(found) > limits.files:
            raise PatchInvalid(f"the patch changes more than {limits.files} files")
        _check(file_patch)
    if not found and patch.strip():
        raise PatchInvalid("there is no diff in the patch", remedy="give a unified or git diff")
    _check_duplicates(found)
    return tuple(found)


class _Reader:
    """Goes through the lines of a patch once."""

    def __init__(self, patch: bytes, limits: PatchLimits) -> None:
        self._lines = patch.split(b"\n")
        if self._lines[-1] == b"":
            self._lines.pop()
        self._at = 0
        self._limits = limits
        self._bytes_left = limits.total_bytes

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"diff --git "):
                yield self._git_file()
            elif line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self._bad("a diff of a merge cannot be applied")
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                yield self._plain_file()
            elif _HUNK.match(line):
                raise self._bad("a hunk without the name of its file")
            else:
                self._at += 1

    def _bad(self, what: str) -> PatchInvalid:
        return PatchInvalid(f"line {self._at + 1}: {what}")

    def _peek(self, ahead: int = 0) -> bytes:
        index = self._at + ahead
        return self._lines[index] if index < len(self._lines) else b""

    def _head_line(self) -> bytes:
        """The present line of a header. A patch that went through Windows has CR there too; git quotes a real one."""
        return self._peek().removesuffix(b"\r")

    def _git_file(self) -> FilePatch:
        start = self._at + 1
        names = pair(self._head_line()[len(b"diff --git ") :])
        head = Head()
        self._at += 1
        while self._at < len(self._lines) and read_extended(self._head_line(), head, self._at + 1):
            self._at += 1
        hunks: tuple[Hunk, ...] = ()
        binary = None
        if self._head_line() == b"GIT binary patch":
            self._at += 1
            binary = self._binary()
        elif self._peek().startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            head.old_name, head.new_name, _ = self._file_lines()
            hunks = self._hunks()
        elif self._peek().startswith(b"Binary files "):
            raise self._bad("a binary change without its content; make the patch with --binary")
        op, old, new = self._git_names(head, names, start)
        if op is Op.MODIFY and not hunks and binary is None and head.new_mode in {None, head.old_mode}:
            raise PatchInvalid(f"line {start}: the entry changes nothing")
        return FilePatch(op, old, new, head.old_mode, head.new_mode, hunks, binary, head.old_blob, head.new_blob, start)

    def _git_names(self, head: Head, names: tuple[bytes, bytes] | None, start: int) -> tuple[Op, bytes, bytes]:
        for op, (old, new) in ((Op.RENAME, head.renamed), (Op.COPY, head.copied)):
            if old is not None and new is not None and not (head.added or head.deleted):
                if old == new:
                    raise PatchInvalid(f"line {start}: a {op.value} to its own name")
                return op, old, new
        said = strip(*names) if names is not None else None
        lines = self._line_names(head, names, start)
        name = (lines[0] if head.deleted else lines[1]) if lines is not None else said[1] if said is not None else None
        if name is None or (said is not None and name not in said):
            raise PatchInvalid(f"line {start}: the names in the header do not agree or cannot be told apart")
        if head.added and head.deleted:
            raise PatchInvalid(f"line {start}: a file both new and deleted")
        return (Op.ADD if head.added else Op.DELETE if head.deleted else Op.MODIFY), name, name

    @staticmethod
    def _line_names(head: Head, names: tuple[bytes, bytes] | None, start: int) -> tuple[bytes, bytes] | None:
        """The names of the `---` and `+++` lines, if there are any; they may say that the file is new or deleted."""
        old, new = head.old_name, head.new_name
        if old is None or new is None:
            return None
        added, deleted = old == DEV_NULL, new == DEV_NULL
        if (added, deleted) != (head.added, head.deleted):
            # Hand-made patches leave out the mode line; the names alone say as much.
            if head.added or head.deleted or (added and deleted):
                raise PatchInvalid(f"line {start}: the header contradicts itself about the file being new or deleted")
            head.added, head.deleted = added, deleted
        if names is not None and (added or deleted):
            # Whether `b/x` is a prefix and a name or a path, only both names of the first line tell.
            old, new = (names[0], new) if added else (old, names[1])
        lines = strip(old, new)
        if lines is None:
            raise PatchInvalid(f"line {start}: the names of the file before and after differ")
        return lines

    def _plain_file(self) -> FilePatch:
        start = self._at + 1
        old, new, epochs = self._file_lines()
        names = strip(old, new)
        if names is None and old == new + b".orig":
            names = (new, new)
        if names is None or names == (DEV_NULL, DEV_NULL):
            raise PatchInvalid(f"line {start}: the names before and after differ; a rename needs git's headers")
        old, new = names
        hunks = self._hunks()
        if not hunks:
            raise PatchInvalid(f"line {start}: no hunk follows the names of the file")
        creates = len(hunks) == 1 and hunks[0].old_count == 0 and hunks[0].old_start == 0
        op = Op.MODIFY
        if old == DEV_NULL or (epochs[0] and creates):
            op = Op.ADD
        elif new == DEV_NULL or (epochs[1] and len(hunks) == 1 and hunks[0].new_count == 0):
            op = Op.DELETE
        name = old if new == DEV_NULL else new
        may_create = op is Op.MODIFY and creates
        return FilePatch(op, name, name, None, None, hunks, None, None, None, start, may_create)

    def _file_lines(self) -> tuple[bytes, bytes, tuple[bool, bool]]:
        old_line = self._head_line()
        old = file_line(old_line[4:], self._at + 1)
        self._at += 1
        new_line = self._head_line()
        new = file_line(new_line[4:], self._at + 1)
        self._at += 1
        return old, new, (bool(_EPOCH.search(old_line)), bool(_EPOCH.search(new_line)))

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while match := _HUNK.match(self._peek()):
            start = self._at + 1
            self._at += 1
            counts = (int(match[1]), int(match[2] or 1), int(match[3]), int(match[4] or 1))
            if not (counts[1] or counts[3]) or (counts[1] and not counts[0]):
                raise PatchInvalid(f"line {start}: a hunk of no lines")
            hunks.append(Hunk(*counts, self._hunk_lines(counts[1], counts[3], start), start))
        after = self._peek()
        if hunks and after[:1] in {ADD, REMOVE, CONTEXT} and not after.startswith((b"--- ", b"-- ")) and after != b"--":
            raise self._bad(f"more lines than the hunk at line {hunks[-1].at} declares")
        return tuple(hunks)

    def _hunk_lines(self, old_left: int, new_left: int, start: int) -> tuple[tuple[bytes, bytes], ...]:
        lines: list[tuple[bytes, bytes]] = []
        ended = {ADD: False, REMOVE: False}  # a side that had its last line, the one without newline
        while old_left or new_left or self._peek().startswith(b"\\"):
            if self._at >= len(self._lines):
                raise PatchInvalid(f"the patch ends inside the hunk at line {start}")
            line = self._peek()
            mark = line[:1] if line not in {b"", b"\r"} else CONTEXT  # some tools strip the blank of an empty line
            text = (line[1:] if line not in {b"", b"\r"} else line) + b"\n"
            sides = {ADD: (ADD,), REMOVE: (REMOVE,), CONTEXT: (ADD, REMOVE)}.get(mark)
            if mark == b"\\":
                if not lines or not lines[-1][1].endswith(b"\n"):
                    raise self._bad("a note about a missing newline that belongs to no line")
                last, whole = lines[-1]
                lines[-1] = (last, whole[:-1])
                ended.update(dict.fromkeys((last,) if last != CONTEXT else (ADD, REMOVE), True))
            elif sides is None:
                raise self._bad(f"a line that is no part of a diff, where the hunk at line {start} is not at its end")
            else:
                if any(ended[side] for side in sides):
                    raise self._bad("a line after one that is said to be the last")
                old_left -= REMOVE in sides
                new_left -= ADD in sides
                if old_left < 0 or new_left < 0:
                    raise self._bad(f"the hunk at line {start} has other counts than its lines")
                lines.append((mark, text))
            self._at += 1
        return tuple(lines)

    def _binary(self) -> Binary:
        """The forward part is kept; the one for going back, if there, is checked for form and dropped."""
        binary = self._binary_part()
        if _BINARY.fullmatch(self._head_line()):
            self._binary_part()
        return binary

    def _binary_part(self) -> Binary:
        match = _BINARY.fullmatch(self._head_line())
        if match is None:
            raise self._bad("a binary patch that is neither literal nor delta")
        size = int(match[2])
        if size > self._limits.file_bytes:
            raise self._bad(f"a binary file of {size} bytes, more than {self._limits.file_bytes}")
        self._at += 1
        try:
            parts: list[bytes] = []
            while line := self._head_line():
                parts.append(decode_line(line))
                self._at += 1
            data = inflate(b"".join(parts), size)
            binary = Binary(match[1] == b"delta", data)
            made = delta_target_size(data) if binary.delta else size
        except PatchInvalid as error:
            raise self._bad(str(error)) from error
        self._at += 1
        self._bytes_left -= size
        if made > self._limits.file_bytes or self._bytes_left < 0:
            raise self._bad("binary files larger than a patch may make")
        return binary


def _check(patch: FilePatch) -> None:
    for path in (patch.old_path, patch.new_path):
        problem = path_problem(path)
        if problem is not None:
            raise PatchInvalid(f"line {patch.at}: {shown(path)}: {problem}")
    if None not in {patch.old_mode, patch.new_mode} and (patch.old_mode == SYMLINK) != (patch.new_mode == SYMLINK):
        raise PatchInvalid(f"line {patch.at}: {shown(patch.path)}: a file cannot become a symlink in one entry")
    step = 0
    for number, text in patch.added_lines():
        if _CONFLICT[step].match(text):
            step += 1
            if step == len(_CONFLICT):
                raise PatchInvalid(f"{shown(patch.path)}:{number}: the patch adds conflict markers")


def _check_duplicates(patches: list[FilePatch]) -> None:
    """One entry makes a path, one may take it away before (a file that becomes a symlink); anything else is a riddle."""
    written: dict[bytes, Op] = {}
    removed: set[bytes] = set()
    for patch in patches:
        if patch.op in {Op.DELETE, Op.RENAME}:
            if patch.old_path in removed:
                raise PatchInvalid(f"line {patch.at}: {shown(patch.old_path)}: removed twice")
            removed.add(patch.old_path)
        if patch.op is not Op.DELETE:
            if patch.new_path in written:
                raise PatchInvalid(f"line {patch.at}: {shown(patch.new_path)}: changed twice")
            written[patch.new_path] = patch.op
    for path in removed:
        if written.get(path) is Op.MODIFY:
            raise PatchInvalid(f"{shown(path)}: both changed and removed")
