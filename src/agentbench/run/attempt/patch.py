"""Δ of an attempt as evidence: taken from the sandbox or brought from elsewhere, written down, and shown to the scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentbench.acceptance.scorers.engine import run_scorers
from agentbench.acceptance.scorers.workspace import Workspace
from agentbench.contract.scorers import scorer_spec
from agentbench.core.errors import PatchInvalid
from agentbench.core.reasons import TerminationCode
from agentbench.record.attempt_folder import FINAL_PATCH
from agentbench.run.attempt.patch_redaction import as_recorded, recorded_text, secret_finding
from agentbench.run.lab import Ground, declared_secrets
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import Termination
from agentbench.workspace.diff.apply import apply
from agentbench.workspace.diff.events import delta_event, refusals
from agentbench.workspace.diff.extract import Delta, extract
from agentbench.workspace.diff.parse import parse
from agentbench.workspace.diff.patched_tree import PatchedTree

if TYPE_CHECKING:
    from agentbench.run.attempt.pipeline import Attempt


def take_delta(attempt: Attempt, ground: Ground, sandbox: Sandbox) -> Delta:
    """Δ as the text that will be graded, recorded with the digest of every file."""
    generated = attempt.row.task.task.oracle.generated
    try:
        delta = extract(ground.prepared.base_tree, sandbox.tree(), generated=generated)
    except PatchInvalid as fault:
        # The candidate ended its own sandbox (its disk limit, its memory): nothing can be graded, and that is its doing.
        delta = Delta(b"", (), (), (), 0, 0, fault.message)
    return _record_delta(attempt, delta)


def given_patch(attempt: Attempt, ground: Ground, patch: bytes) -> Delta:
    """Δ made elsewhere: brought into the form in which every Δ is recorded, if it applies at all."""
    attempt.log.append(
        Termination(
            code=TerminationCode.AGENT_STOPPED,
            category=None,
            rationale="a patch made elsewhere",
            evidence=[attempt.log.count],
        )
    )
    unread = attempt.row.configuration.patch_problem
    if unread:
        return _record_delta(attempt, Delta(b"", (), (), (), 0, 0, unread))
    base = ground.prepared.base_tree
    try:
        after = PatchedTree(base, apply(parse(patch), base))
    except PatchInvalid as fault:
        return _record_delta(attempt, Delta(patch, (), (), (), 0, 0, fault.message))
    delta = _record_delta(attempt, extract(base, after, generated=attempt.row.task.task.oracle.generated))
    score(attempt, Workspace(base, after, delta, None))
    return delta


def score(attempt: Attempt, workspace: Workspace) -> None:
    """The task's scorers on the workspace as the agent left it: shown beside the gates, never part of them."""
    specs = [scorer_spec(scorer) for scorer in attempt.row.task.scorers]
    if specs:
        attempt.report_phase("scorers")
    for result in run_scorers(specs, workspace):
        attempt.log.append(result)


def _record_delta(attempt: Attempt, delta: Delta) -> Delta:
    kept = recorded_text(delta.patch, attempt.folder.redact)
    attempt.folder.write_exact(FINAL_PATCH, kept)
    attempt.log.append(as_recorded(delta_event(delta), delta.patch, kept))
    leak = secret_finding(delta.patch, kept, declared_secrets(attempt.row.task))
    for finding in (*refusals(delta), *filter(None, (leak,))):
        attempt.log.append(finding, "monitor")
    attempt.log.sync()
    return delta
