"""Hunks whose header counts other lines than follow: the commonest slip of whoever writes a diff by hand, and of models."""

from __future__ import annotations

import re

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)", re.DOTALL)


def recount_hunks(patch: bytes) -> bytes:
    """The patch with every hunk's counts taken from its lines. Where a hunk ends is told by what cannot be in one."""
    lines = patch.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    out: list[bytes] = []
    at = 0
    while at < len(lines):
        header = _HUNK.fullmatch(lines[at])
        if header is None:
            out.append(lines[at])
            at += 1
            continue
        end = _end(lines, at + 1)
        body = lines[at + 1 : end]
        old = sum(line[:1] in {b"-", b" ", b"", b"\r"} for line in body)
        new = sum(line[:1] in {b"+", b" ", b"", b"\r"} for line in body)
        out.append(b"@@ -%s,%d +%s,%d @@%s" % (header[1], old, header[2], new, header[3]))
        out += body
        at = end
        while at < len(lines) and not lines[at].strip():
            at += 1
    return b"\n".join(out) + b"\n"


def _end(lines: list[bytes], start: int) -> int:
    """Where the hunk that has its first line at `start` ends; blank lines after it are not its own."""
    end = start
    while end < len(lines) and not _is_after(lines, end):
        end += 1
    while end > start and not lines[end - 1].strip(b"\r"):
        end -= 1
    return end


def _is_after(lines: list[bytes], at: int) -> bool:
    line = lines[at]
    if line[:1] not in {b" ", b"+", b"-", b"\\", b"", b"\r"} or line == b"-- ":
        return True
    return line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ ")
