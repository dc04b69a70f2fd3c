"""What a command changed outside the editable scope, put back as the agent found it, where the contract says `revert`."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.errors import PatchInvalid
from agentbench.core.text import printable
from agentbench.tools.paths import show
from agentbench.tools.tool_context import Bench
from agentbench.tools.workspace_tracker import Changes
from agentbench.tree.entry import FileWrite
from agentbench.workspace.diff.compare import FileChange
from agentbench.workspace.diff.parse import PatchLimits

NAMED = 10


def hold_scope(bench: Bench, changes: Changes) -> tuple[frozenset[bytes], str]:
    """Log what a command changed, and do what the contract says about what is outside the scope.

    Gives the paths that are as they were again, and what the agent is told. Under `violation` nothing is put back: what
    counts is Δ in the end, where it becomes a finding if it is still there, so far it is a note with evidence.
    """
    mutated = bench.watch.log_changes(bench.call_id, changes)
    outside = bench.scope.outside(changes.own)
    if not outside:
        return frozenset(), ""
    named = ", ".join(show(path) for path in outside[:NAMED])
    named += f" and {len(outside) - NAMED} more" if len(outside) > NAMED else ""
    told = f"changed outside the editable scope ({bench.scope.described()}): {named}"
    alert = bench.journal.alert("scope", "editable_globs", told, evidence=mutated)
    if not bench.rules.revert_outside:
        return frozenset(), told
    beyond = frozenset(outside)
    problem = _put_back(bench, [change for change in changes.files if change.path in beyond])
    if problem:
        bench.journal.alert("scope", "not_reverted", f"it cannot be put back: {problem}", evidence=alert)
        return frozenset(), f"{told}; it could not be put back: {problem}"
    bench.journal.intervene("rollback", alert, f"put back as it was found: {named}")
    return beyond, f"{told}; it was put back as it was found"


def _put_back(bench: Bench, changes: Sequence[FileChange]) -> str:
    """Why it cannot be done; empty when it was."""
    limits = PatchLimits()
    left = limits.total_bytes
    writes: list[FileWrite] = []
    for change in changes:
        write = bench.watch.found(change, max_bytes=min(limits.file_bytes, left))
        if write is None:
            return f"the content that {show(change.path)} had is not at hand"
        left -= len(write.content or b"")
        writes.append(write)
    try:
        bench.sandbox.write_files(writes)
    except PatchInvalid as error:
        return printable(error.message[:300])
    bench.watch.log_changes(bench.call_id, bench.watch.wrote(writes))
    return ""
