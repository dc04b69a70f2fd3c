"""apply_patch: a unified diff put on the workspace, all of it or nothing."""

from __future__ import annotations

from pydantic import Field

from agentbench.core.errors import PatchInvalid, ToolFault
from agentbench.core.text import printable
from agentbench.tools.definition import Arguments, define
from agentbench.tools.hunk_counts import recount_hunks
from agentbench.tools.paths import show
from agentbench.tools.result import ToolError, ToolResult
from agentbench.tools.tool_context import Execution, ToolContext
from agentbench.trace.events import PatchApplied
from agentbench.tree.limits import TreeTooLarge
from agentbench.workspace.diff.parse import FilePatch, Plan, changed_paths, parse, plan

MAX_PATCH = 4 * 1024 * 1024
FUZZ = 2
"""Context lines at each end of a hunk that may differ: models miscount and misquote; where it happened is reported."""
PATCH_SHOWN = 8_000


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
    """Check, apply and write a patch; what it changed is known from the patch itself, so nothing is looked at again.

    `lenient` forgives what can be told apart from a wrong patch: wrong counts in hunks, context that differs a
    little, other line ends.
    """
    context.tracker.settle()
    try:
        patches, note = _parsed(patch, lenient=lenient)
        _require_scope(context, changed_paths(patches))
        planned = plan(patches, context.tracker.tree, fuzz=FUZZ if lenient else 0, any_line_ends=lenient)
        context.sandbox.write_files(planned.writes)
    except (PatchInvalid, TreeTooLarge) as error:
        message = error.message + (f"; {error.remedy}" if error.remedy else "")
        raise ToolFault(printable(message[:2000]), kind=ToolError.PATCH_INVALID) from None
    changes = context.tracker.wrote(planned.writes)
    told = "; ".join(filter(None, (note, _moved(planned), _kept_ends(planned))))
    applied = PatchApplied(
        call_id=context.call_id,
        files=context.tracker.digests(changes),
        patch=context.recorder.excerpt(patch, limit=PATCH_SHOWN),
        fuzz=planned.fuzz,
        why=told,
    )
    context.recorder.write(applied)
    return Execution(ToolResult(ok=True, changed_files=tuple(map(show, changes.own)), note=told))


def _parsed(patch: bytes, *, lenient: bool) -> tuple[tuple[FilePatch, ...], str]:
    try:
        return parse(patch), ""
    except PatchInvalid:
        if not lenient:
            raise
        try:
            return parse(
                recount_hunks(patch)
            ), "the line counts of its hunks did not fit and were taken from their lines"
        except PatchInvalid:
            pass
        raise


def _require_scope(context: ToolContext, paths: tuple[bytes, ...]) -> None:
    outside = context.scope.outside(paths)
    if outside:
        named = ", ".join(map(show, outside[:10]))
        raise ToolFault(
            f"outside the editable scope ({context.scope.described()}): {named}; nothing was applied",
            kind=ToolError.OUTSIDE_SCOPE,
        )


def _moved(planned: Plan) -> str:
    """Which hunks did not stand where the patch said; a reader should look at them."""
    told = [
        f"{show(path)}: hunk {one.hunk} applied at line {one.line}"
        + (f", {one.offset:+d} lines off" if one.offset else "")
        + (f", ignoring up to {one.fuzz} lines of context" if one.fuzz else "")
        for path, one in planned.moved[:20]
    ]
    return "; ".join(told)


def _kept_ends(planned: Plan) -> str:
    """Which files end their lines otherwise than the patch did."""
    if not planned.line_ends:
        return ""
    return f"{', '.join(map(show, planned.line_ends[:20]))}: the line ends are not the patch's; the file's were kept"


APPLY_PATCH = define(
    "apply_patch",
    "write",
    ApplyPatch,
    apply_patch,
    description="Change files of the workspace by a unified diff: edits, new files, deletions, renames.",
)
