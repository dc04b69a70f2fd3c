"""Parses unified and git diffs from untrusted input. A patch is accepted as a whole or rejected as a whole."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from agentbench.core.errors import PatchInvalid
from agentbench.workspace.diff.binary import decode_line, delta_target_size, inflate
from agentbench.workspace.diff.file_patch import (
    ADD,
    CONTEXT,
    REMOVE,
    SYMLINK,
    BinaryContent,
    FilePatch,
    Hunk,
    Op,
    PatchLimits,
)
from agentbench.workspace.diff.headers import DEV_NULL, FileHeader, parse_file_name, split_names, strip_prefixes
from agentbench.workspace.diff.paths import display_path, path_problem

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_BINARY = re.compile(rb"(literal|delta) (\d{1,12})")
_CONFLICT = (
    re.compile(rb"<{7}(?:[ \r\n]|$)"),
    re.compile(rb"={7}\r?$", re.MULTILINE),
    re.compile(rb">{7}(?:[ \r\n]|$)"),
)
_EPOCH = re.compile(rb"\t(?:1970-01-01 |1969-12-31 |Thu Jan  1 |Thu Jan 01 |Wed Dec 31 )")


def parse(patch: bytes, limits: PatchLimits | None = None) -> tuple[FilePatch, ...]:
    """Parse a patch into one entry per file; a blank patch has none. Text around the diffs, such as a mail, is skipped.

    Raises:
        PatchInvalid: a part of the patch cannot be parsed or is not allowed.
    """
    limits = limits or PatchLimits()
    patch = patch.removeprefix(codecs.BOM_UTF8)
    if len(patch) > limits.patch_bytes:
        raise PatchInvalid(f"the patch has {len(patch)} bytes, the limit is {limits.patch_bytes}")
    if patch.count(b"\n") > limits.lines:
        raise PatchInvalid(f"the patch has more than {limits.lines} lines")
    reader = _Reader(patch, limits)
    patches: list[FilePatch] = []
    for file_patch in reader.files():
        patches.append(file_patch)
        if len(patches) > limits.files:
            raise PatchInvalid(f"the patch changes more than {limits.files} files")
        _check(file_patch)
    if not patches and patch.strip():
        problem, remedy = _no_diff(patch)
        raise PatchInvalid(problem, remedy=remedy)
    _check_duplicates(patches)
    return tuple(patches)


def _no_diff(patch: bytes) -> tuple[str, str]:
    """Say why nothing in a patch was recognised, and the remedy."""
    if patch.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "the patch is UTF-16 text", "save it as UTF-8; in PowerShell: git diff --output=FILE"
    if patch.startswith(b"\x1f\x8b"):
        return "the patch is compressed with gzip", "decompress it"
    return "the patch contains no diff", "provide a unified or git diff"


class _Reader:
    """Reads the lines of a patch once, from start to end."""

    def __init__(self, patch: bytes, limits: PatchLimits) -> None:
        self._lines = patch.split(b"\n")
        if self._lines[-1] == b"":
            self._lines.pop()
        self._index = 0
        self._limits = limits
        self._bytes_left = limits.total_bytes

    def files(self) -> Iterator[FilePatch]:
        while self._index < len(self._lines):
            line = self._lines[self._index]
            if line.startswith(b"diff --git "):
                yield self._git_file()
            elif line.startswith((b"diff --cc ", b"diff --combined ")):
                raise self._error("combined diffs of merges are not supported")
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                yield self._plain_file()
            elif _HUNK.match(line):
                raise self._error("the hunk has no file name")
            else:
                self._index += 1

    def _error(self, problem: str) -> PatchInvalid:
        return PatchInvalid(f"line {self._index + 1}: {problem}")

    def _peek(self, ahead: int = 0) -> bytes:
        index = self._index + ahead
        return self._lines[index] if index < len(self._lines) else b""

    def _header_line(self) -> bytes:
        """Return the current header line without a final CR. Windows tools add one; git quotes a CR in a name."""
        return self._peek().removesuffix(b"\r")

    def _git_file(self) -> FilePatch:
        start = self._index + 1
        names = split_names(self._header_line()[len(b"diff --git ") :])
        header = FileHeader()
        self._index += 1
        while self._index < len(self._lines) and header.read_line(self._header_line(), self._index + 1):
            self._index += 1
        hunks: tuple[Hunk, ...] = ()
        binary = None
        if self._header_line() == b"GIT binary patch":
            self._index += 1
            binary = self._binary()
        elif self._peek().startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            header.old_name, header.new_name, _ = self._read_file_names()
            hunks = self._hunks()
        elif self._peek().startswith(b"Binary files "):
            raise self._error("the binary change has no content; create the patch with `git diff --binary`")
        op, old, new = self._git_names(header, names, start)
        if op is Op.MODIFY and not hunks and binary is None and header.new_mode in {None, header.old_mode}:
            raise PatchInvalid(f"line {start}: the entry changes nothing")
        return FilePatch(
            op, old, new, header.old_mode, header.new_mode, hunks, binary, header.old_blob, header.new_blob, start
        )

    def _git_names(self, header: FileHeader, names: tuple[bytes, bytes] | None, start: int) -> tuple[Op, bytes, bytes]:
        for op, (old, new) in ((Op.RENAME, header.renamed), (Op.COPY, header.copied)):
            if old is not None and new is not None and not (header.added or header.deleted):
                if old == new:
                    raise PatchInvalid(f"line {start}: the {op.value} has the same old and new name")
                return op, old, new
        git_names = strip_prefixes(*names) if names is not None else None
        file_names = self._file_names(header, names, start)
        name = None
        if file_names is not None:
            name = file_names[0] if header.deleted else file_names[1]
        elif git_names is not None:
            name = git_names[1]
        if name is None or (git_names is not None and name not in git_names):
            raise PatchInvalid(f"line {start}: the names in the header are ambiguous or contradict each other")
        if header.added and header.deleted:
            raise PatchInvalid(f"line {start}: the file is both new and deleted")
        return (Op.ADD if header.added else Op.DELETE if header.deleted else Op.MODIFY), name, name

    @staticmethod
    def _file_names(header: FileHeader, names: tuple[bytes, bytes] | None, start: int) -> tuple[bytes, bytes] | None:
        """Return the names of the `---` and `+++` lines, if present. They may mark the file as new or deleted."""
        old, new = header.old_name, header.new_name
        if old is None or new is None:
            return None
        added, deleted = old == DEV_NULL, new == DEV_NULL
        if (added, deleted) != (header.added, header.deleted):
            # Handwritten patches often omit the mode line; /dev/null as a name means the same.
            if header.added or header.deleted or (added and deleted):
                raise PatchInvalid(f"line {start}: the header lines disagree on whether the file is new or deleted")
            header.added, header.deleted = added, deleted
        if names is not None and (added or deleted):
            # `b/x` may be a path or a name with a prefix. Only both names of the `diff --git` line tell which.
            old, new = (names[0], new) if added else (old, names[1])
        file_names = strip_prefixes(old, new)
        if file_names is None:
            raise PatchInvalid(f"line {start}: the old and new names of the file differ")
        return file_names

    def _plain_file(self) -> FilePatch:
        start = self._index + 1
        old, new, epochs = self._read_file_names()
        names = strip_prefixes(old, new)
        if names is None and old == new + b".orig":
            names = (new, new)
        if names is None or names == (DEV_NULL, DEV_NULL):
            raise PatchInvalid(f"line {start}: the old and new names differ; a rename needs git headers")
        old, new = names
        hunks = self._hunks()
        if not hunks:
            raise PatchInvalid(f"line {start}: no hunk follows the file names")
        creates = len(hunks) == 1 and hunks[0].old_count == 0 and hunks[0].old_start == 0
        op = Op.MODIFY
        if old == DEV_NULL or (epochs[0] and creates):
            op = Op.ADD
        elif new == DEV_NULL or (epochs[1] and len(hunks) == 1 and hunks[0].new_count == 0):
            op = Op.DELETE
        name = old if new == DEV_NULL else new
        may_create = op is Op.MODIFY and creates
        return FilePatch(op, name, name, None, None, hunks, None, None, None, start, may_create)

    def _read_file_names(self) -> tuple[bytes, bytes, tuple[bool, bool]]:
        old_line = self._header_line()
        old = parse_file_name(old_line[4:], self._index + 1)
        self._index += 1
        new_line = self._header_line()
        new = parse_file_name(new_line[4:], self._index + 1)
        self._index += 1
        return old, new, (bool(_EPOCH.search(old_line)), bool(_EPOCH.search(new_line)))

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while match := _HUNK.match(self._peek()):
            start = self._index + 1
            self._index += 1
            counts = (int(match[1]), int(match[2] or 1), int(match[3]), int(match[4] or 1))
            if not (counts[1] or counts[3]) or (counts[1] and not counts[0]):
                raise PatchInvalid(f"line {start}: the hunk has no lines")
            hunks.append(Hunk(*counts, self._hunk_lines(counts[1], counts[3], start), start))
        after = self._peek()
        if hunks and after[:1] in {ADD, REMOVE, CONTEXT} and not after.startswith((b"--- ", b"-- ")) and after != b"--":
            raise self._error(f"the hunk at line {hunks[-1].patch_line} has more lines than it declares")
        return tuple(hunks)

    def _hunk_lines(self, old_left: int, new_left: int, start: int) -> tuple[tuple[bytes, bytes], ...]:
        lines: list[tuple[bytes, bytes]] = []
        ended = {ADD: False, REMOVE: False}  # sides whose last line, without a newline, was read
        while old_left or new_left or self._peek().startswith(b"\\"):
            if self._index >= len(self._lines):
                raise PatchInvalid(f"the patch ends inside the hunk at line {start}")
            line = self._peek()
            mark = line[:1] if line not in {b"", b"\r"} else CONTEXT  # some tools strip the space of an empty line
            text = (line[1:] if line not in {b"", b"\r"} else line) + b"\n"
            sides = {ADD: (ADD,), REMOVE: (REMOVE,), CONTEXT: (ADD, REMOVE)}.get(mark)
            if mark == b"\\":
                if not lines or not lines[-1][1].endswith(b"\n"):
                    raise self._error("the note about a missing newline follows no line")
                last_mark, last_text = lines[-1]
                lines[-1] = (last_mark, last_text[:-1])
                ended.update(dict.fromkeys((last_mark,) if last_mark != CONTEXT else (ADD, REMOVE), True))
            elif sides is None:
                raise self._error(f"not a diff line, but the hunk at line {start} is incomplete")
            else:
                if any(ended[side] for side in sides):
                    raise self._error("the hunk continues after a line marked as the last of the file")
                old_left -= REMOVE in sides
                new_left -= ADD in sides
                if old_left < 0 or new_left < 0:
                    raise self._error(f"the lines of the hunk at line {start} do not match its counts")
                lines.append((mark, text))
            self._index += 1
        return tuple(lines)

    def _binary(self) -> BinaryContent:
        """Read the forward part. The optional reverse part is checked and ignored."""
        binary = self._binary_part()
        if _BINARY.fullmatch(self._header_line()):
            self._binary_part()
        return binary

    def _binary_part(self) -> BinaryContent:
        match = _BINARY.fullmatch(self._header_line())
        if match is None:
            raise self._error("the binary patch is neither a literal nor a delta")
        size = int(match[2])
        if size > self._limits.file_bytes:
            raise self._error(f"the binary content has {size} bytes, the limit is {self._limits.file_bytes}")
        self._index += 1
        try:
            parts: list[bytes] = []
            while line := self._header_line():
                parts.append(decode_line(line))
                self._index += 1
            data = inflate(b"".join(parts), size)
            binary = BinaryContent(match[1] == b"delta", data)
            file_size = delta_target_size(data) if binary.is_delta else size
        except PatchInvalid as error:
            raise self._error(str(error)) from error
        self._index += 1
        self._bytes_left -= size
        if file_size > self._limits.file_bytes or self._bytes_left < 0:
            raise self._error("the binary content exceeds the size limits of a patch")
        return binary


def _check(patch: FilePatch) -> None:
    for path in (patch.old_path, patch.new_path):
        problem = path_problem(path)
        if problem is not None:
            raise PatchInvalid(f"line {patch.patch_line}: {display_path(path)}: {problem}")
    if None not in {patch.old_mode, patch.new_mode} and (patch.old_mode == SYMLINK) != (patch.new_mode == SYMLINK):
        raise PatchInvalid(
            f"line {patch.patch_line}: {display_path(patch.path)}: an entry cannot turn a file into a symlink or back"
        )
    step = 0
    for number, text in patch.added_lines():
        if _CONFLICT[step].match(text):
            step += 1
            if step == len(_CONFLICT):
                raise PatchInvalid(f"{display_path(patch.path)}:{number}: the patch adds conflict markers")


def _check_duplicates(patches: list[FilePatch]) -> None:
    """Reject paths with several entries. Allowed is a deletion with an addition, as when a file becomes a symlink."""
    written: dict[bytes, Op] = {}
    removed: set[bytes] = set()
    for patch in patches:
        if patch.op in {Op.DELETE, Op.RENAME}:
            if patch.old_path in removed:
                raise PatchInvalid(
                    f"line {patch.patch_line}: {display_path(patch.old_path)}: the patch removes the path twice"
                )
            removed.add(patch.old_path)
        if patch.op is not Op.DELETE:
            if patch.new_path in written:
                raise PatchInvalid(
                    f"line {patch.patch_line}: {display_path(patch.new_path)}: the patch changes the path twice"
                )
            written[patch.new_path] = patch.op
    for path in removed:
        if written.get(path) is Op.MODIFY:
            raise PatchInvalid(f"{display_path(path)}: the patch both changes and removes the path")
