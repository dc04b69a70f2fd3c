"""What a command changed outside the editable scope, put back as the agent found it, where the contract says `revert`."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.errors import PatchInvalid
from agentbench.core.text import printable
from agentbench.tools.paths import show
from agentbench.tools.tool_context import ToolContext
from agentbench.tools.workspace_tracker import Changes
from agentbench.tree.entry import FileWrite
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.parse import PatchLimits

NAMED = 10


def enforce_scope(context: ToolContext, changes: Changes) -> tuple[frozenset[bytes], str]:
    """Log what a command changed, and do what the contract says about what is outside the scope.

    Gives the paths that are as they were again, and what the agent is told. Under `violation` nothing is put back: what
    counts is Δ in the end, where it becomes a finding if it is still there, so far it is a note with evidence.
    """
    mutated = context.tracker.log_changes(context.call_id, changes)
    outside = context.scope.outside(changes.own)
    if not outside:
        return frozenset(), ""
    named = ", ".join(show(path) for path in outside[:NAMED])
    named += f" and {len(outside) - NAMED} more" if len(outside) > NAMED else ""
    told = f"changed outside the editable scope ({context.scope.described()}): {named}"
    alert = context.recorder.alert("scope", "editable_globs", told, evidence=mutated)
    if not context.rules.revert_outside:
        return frozenset(), told
    beyond = frozenset(outside)
    problem = _put_back(context, [change for change in changes.files if change.path in beyond])
    if problem:
        context.recorder.alert("scope", "not_reverted", f"it cannot be put back: {problem}", evidence=alert)
        return frozenset(), f"{told}; it could not be put back: {problem}"
    context.recorder.intervene("rollback", alert, f"put back as it was found: {named}")
    return beyond, f"{told}; it was put back as it was found"


def _put_back(context: ToolContext, changes: Sequence[FileChange]) -> str:
    """Why it cannot be done; empty when it was."""
    limits = PatchLimits()
    left = limits.total_bytes
    writes: list[FileWrite] = []
    for change in changes:
        write = context.tracker.found(change, max_bytes=min(limits.file_bytes, left))
        if write is None:
            return f"the content that {show(change.path)} had is not at hand"
        left -= len(write.content or b"")
        writes.append(write)
    try:
        context.sandbox.write_files(writes)
    except PatchInvalid as error:
        return printable(error.message[:300])
    context.tracker.log_changes(context.call_id, context.tracker.wrote(writes))
    return ""
