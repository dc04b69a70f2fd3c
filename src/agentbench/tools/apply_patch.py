"""The apply_patch tool: applies a unified diff to the workspace, completely or not at all."""

from __future__ import annotations

import re

from pydantic import Field

from agentbench.core.errors import PatchInvalid, ToolFault
from agentbench.core.text import printable
from agentbench.tools.definition import Arguments, Execution, Tool, ToolContext
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError, ToolResult
from agentbench.trace.events import PatchApplied
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.apply import PlannedWrites, plan_writes
from agentbench.workspace.diff.file_patch import FilePatch, changed_paths
from agentbench.workspace.diff.parse import parse

MAX_PATCH = 4 * 1024 * 1024
FUZZ = 2
"""Context lines at each end of a hunk that may differ, because models miscount and misquote. Each use is reported."""
PATCH_SHOWN = 8_000

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)", re.DOTALL)


class ApplyPatch(Arguments):
    unified_diff: str = Field(
        min_length=1,
        max_length=MAX_PATCH,
        description="A unified diff with `--- a/path` and `+++ b/path` headers (git's extensions are understood). "
        "Applied as a whole or not at all.",
    )


def apply_patch(context: ToolContext, arguments: ApplyPatch) -> Execution:
    return patch_workspace(context, arguments.unified_diff.encode("utf-8"), lenient=True)


def patch_workspace(context: ToolContext, patch: bytes, *, lenient: bool) -> Execution:
    """Check a patch and write its files. The patch says what it changes, so the workspace is not scanned again.

    `lenient` accepts slips that cannot be confused with a wrong patch: wrong line counts in hunk headers, slightly different
    context, and different line endings.
    """
    context.tracker.settle()
    try:
        patches, note = _parsed(patch, lenient=lenient)
        _require_scope(context, changed_paths(patches))
        planned = plan_writes(patches, context.tracker.tree, fuzz=FUZZ if lenient else 0, ignore_line_endings=lenient)
        context.sandbox.write_files(planned.writes)
    except (PatchInvalid, TreeTooLarge) as error:
        message = error.message + (f"; {error.remedy}" if error.remedy else "")
        raise ToolFault(printable(message[:2000]), kind=ToolError.PATCH_INVALID) from None
    changes = context.tracker.wrote(planned.writes)
    notes = "; ".join(filter(None, (note, _moved(planned), _kept_line_endings(planned))))
    applied = PatchApplied(
        call_id=context.call_id,
        files=context.tracker.digests(changes),
        patch=context.recorder.excerpt(patch, limit=PATCH_SHOWN),
        diff=context.tracker.diff(changes),
        fuzz=planned.fuzz,
        why=notes,
    )
    context.recorder.write(applied)
    return Execution(ToolResult(ok=True, changed_files=tuple(map(show, changes.own)), note=notes))


def _parsed(patch: bytes, *, lenient: bool) -> tuple[tuple[FilePatch, ...], str]:
    try:
        return parse(patch), ""
    except PatchInvalid:
        if not lenient:
            raise
        try:
            return parse(recount_hunks(patch)), "corrected the line counts in hunk headers"
        except PatchInvalid:
            pass
        raise


def _require_scope(context: ToolContext, paths: tuple[bytes, ...]) -> None:
    outside = context.scope.outside(paths)
    if outside:
        named = ", ".join(map(show, outside[:10]))
        raise ToolFault(
            f"outside the editable scope ({context.scope.describe()}): {named}; nothing was applied",
            kind=ToolError.OUTSIDE_SCOPE,
        )


def _moved(planned: PlannedWrites) -> str:
    """List the hunks that applied elsewhere than the patch says, so that the agent can check them."""
    return "; ".join(
        f"{show(path)}: hunk {hunk.hunk} applied at line {hunk.line}"
        + (f", {hunk.offset:+d} lines off" if hunk.offset else "")
        + (f", ignoring up to {hunk.fuzz} lines of context" if hunk.fuzz else "")
        for path, hunk in planned.moved[:20]
    )


def _kept_line_endings(planned: PlannedWrites) -> str:
    """List the files whose line endings differ from the patch's."""
    if not planned.kept_line_endings:
        return ""
    paths = ", ".join(map(show, planned.kept_line_endings[:20]))
    return f"{paths}: kept the file's line endings, which differ from the patch's"


def recount_hunks(patch: bytes) -> bytes:
    """Rewrite every hunk header with the counts of its actual lines.

    Wrong counts are the most common slip in diffs written by hand or by models. A hunk ends at the first line that cannot be
    part of one.
    """
    lines = patch.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    out: list[bytes] = []
    index = 0
    while index < len(lines):
        header = _HUNK.fullmatch(lines[index])
        if header is None:
            out.append(lines[index])
            index += 1
            continue
        end = _hunk_end(lines, index + 1)
        body = lines[index + 1 : end]
        old = sum(line[:1] in {b"-", b" ", b"", b"\r"} for line in body)
        new = sum(line[:1] in {b"+", b" ", b"", b"\r"} for line in body)
        out.append(b"@@ -%s,%d +%s,%d @@%s" % (header[1], old, header[2], new, header[3]))
        out += body
        index = end
        while index < len(lines) and not lines[index].strip():
            index += 1
    return b"\n".join(out) + b"\n"


def _hunk_end(lines: list[bytes], start: int) -> int:
    """Return where the hunk that begins at `start` ends. Trailing blank lines do not belong to it."""
    end = start
    while end < len(lines) and not _ends_hunk(lines, end):
        end += 1
    while end > start and not lines[end - 1].strip(b"\r"):
        end -= 1
    return end


def _ends_hunk(lines: list[bytes], index: int) -> bool:
    line = lines[index]
    if line[:1] not in {b" ", b"+", b"-", b"\\", b"", b"\r"} or line == b"-- ":
        return True
    return line.startswith(b"--- ") and index + 1 < len(lines) and lines[index + 1].startswith(b"+++ ")


APPLY_PATCH = Tool(
    "apply_patch",
    "write",
    ApplyPatch,
    apply_patch,
    description="Change files of the workspace by a unified diff: edits, new files, deletions, renames.",
)
