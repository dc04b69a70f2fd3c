"""Renders changes as a patch in git's format."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.tree.entry import Kind
from agentbench.workspace.diff.binary import blob_id, encode
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.headers import quote
from agentbench.workspace.diff.line_diff import LineDiff, Region, split_lines

_CONTEXT = 3
_NO_BLOB = "0" * 40
_NO_NEWLINE = b"\\ No newline at end of file\n"


class Renderer:
    """Renders the entries of one patch. All of them share one budget for computing line differences."""

    def __init__(self) -> None:
        self._diff = LineDiff()

    def entry(self, change: FileChange, old: bytes, new: bytes, *, binary: bool) -> tuple[bytes, int, int]:
        """Render one change. Return the text and the numbers of added and removed lines."""
        before, after = change.before, change.after
        if before is not None and after is not None and before.kind is not after.kind:
            # One entry cannot turn a file into a symlink, so git writes a deletion and an addition.
            deletion, _, removed = self._render(
                FileChange(change.path, "deleted", before, None), old, b"", binary=binary
            )
            addition, added, _ = self._render(FileChange(change.path, "added", None, after), b"", new, binary=binary)
            return deletion + addition, added, removed
        return self._render(change, old, new, binary=binary)

    def _render(self, change: FileChange, old: bytes, new: bytes, *, binary: bool) -> tuple[bytes, int, int]:
        before, after = change.before, change.after
        old_path, new_path = change.old_path or change.path, change.path
        lines = [b"diff --git " + quote(b"a/" + old_path) + b" " + quote(b"b/" + new_path)]
        old_blob = _NO_BLOB if before is None else blob_id(old)
        new_blob = _NO_BLOB if after is None else blob_id(new)
        old_mode, new_mode = change.before_mode, change.after_mode
        if before is None and new_mode is not None:
            lines.append(b"new file mode " + new_mode.encode())
        elif after is None and old_mode is not None:
            lines.append(b"deleted file mode " + old_mode.encode())
        elif old_mode != new_mode and old_mode is not None and new_mode is not None:
            lines += (b"old mode " + old_mode.encode(), b"new mode " + new_mode.encode())
        if change.change == "renamed":
            similarity = b"100" if old == new else b"60"
            lines.append(b"similarity index " + similarity + b"%")
            lines += (b"rename from " + quote(old_path), b"rename to " + quote(new_path))
        if old_blob == new_blob:
            return b"\n".join(lines) + b"\n", 0, 0
        shared = f" {new_mode}" if old_mode == new_mode else ""
        lines.append(f"index {old_blob}..{new_blob}{shared}".encode())
        header = b"\n".join(lines) + b"\n"
        if binary:
            return header + b"GIT binary patch\nliteral %d\n" % len(new) + encode(new) + b"\n", 0, 0
        hunks, added, removed = self._hunks(split_lines(old), split_lines(new))
        if not hunks:
            return header, 0, 0  # an empty file was added or deleted
        names = (
            b"--- " + (_file_name(b"a/" + old_path) if before is not None else b"/dev/null"),
            b"+++ " + (_file_name(b"b/" + new_path) if after is not None else b"/dev/null"),
        )
        return header + b"\n".join(names) + b"\n" + hunks, added, removed

    def _hunks(self, old: Sequence[bytes], new: Sequence[bytes]) -> tuple[bytes, int, int]:
        regions = self._diff.regions(old, new)
        parts = [_hunk(group, old, new) for group in _grouped(regions)]
        added = sum(j2 - j1 for _, _, j1, j2 in regions)
        removed = sum(i2 - i1 for i1, i2, _, _ in regions)
        return b"".join(parts), added, removed


def _file_name(name: bytes) -> bytes:
    quoted = quote(name)
    # A tab marks the end of an unquoted name that contains a space.
    return quoted + b"\t" if quoted == name and b" " in name else quoted


def _grouped(regions: Sequence[Region]) -> list[list[Region]]:
    """Group regions whose context lines touch into hunks."""
    groups: list[list[Region]] = []
    for region in regions:
        if groups and region[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(region)
        else:
            groups.append([region])
    return groups


def _hunk(group: Sequence[Region], old: Sequence[bytes], new: Sequence[bytes]) -> bytes:
    start, end = max(group[0][0] - _CONTEXT, 0), min(group[-1][1] + _CONTEXT, len(old))
    new_start = group[0][2] - (group[0][0] - start)
    new_end = group[-1][3] + (end - group[-1][1])
    parts: list[bytes] = []
    position = start
    for i1, i2, j1, j2 in group:
        parts += (_line(b" ", line) for line in old[position:i1])
        parts += (_line(b"-", line) for line in old[i1:i2])
        parts += (_line(b"+", line) for line in new[j1:j2])
        position = i2
    parts += (_line(b" ", line) for line in old[position:end])
    return b"@@ -%s +%s @@\n" % (_range(start, end), _range(new_start, new_end)) + b"".join(parts)


def _range(start: int, end: int) -> bytes:
    if end - start == 1:
        return b"%d" % end
    return b"%d,%d" % (start + 1 if end > start else start, end - start)


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + b"\n" + _NO_NEWLINE


def is_text(content: bytes, kind: Kind, limit: int) -> bool:
    """Return whether a line diff can represent the content. Content with a NUL or longer than `limit` is binary."""
    return kind is Kind.SYMLINK or (len(content) <= limit and b"\0" not in content)
