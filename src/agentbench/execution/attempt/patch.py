"""The patch of an attempt as evidence: extracted from the sandbox or given, recorded, and passed to the task's scorers.

What is graded is exact; what is recorded has placeholders for known secrets, and the record says so. A secret of the base
repository is in a patch that touches its line, and can be restored for a replay. Others get there only if the agent found them:
one that the task declares for its setup can be in what setup left; an API key of the host never enters a sandbox and can only be
there by coincidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Command, Completed
from agentbench.core.errors import PatchInvalid
from agentbench.core.reasons import TerminationCode
from agentbench.execution.attempt.base import Attempt
from agentbench.execution.lab import PreparedTask, declared_secrets
from agentbench.record.attempt_folder import FINAL_PATCH
from agentbench.sandbox.protocol import Sandbox
from agentbench.trace.events import IntegrityFinding, PatchExtracted, Termination
from agentbench.trace.redaction import Redactor
from agentbench.tree.entry import Tree
from agentbench.workspace.diff.apply import PatchedTree, plan_writes
from agentbench.workspace.diff.events import excluded_findings, patch_event
from agentbench.workspace.diff.extract import ExtractedPatch, extract
from agentbench.workspace.diff.parse import parse

SECRET_RULE = "secret.in_patch"


def extract_patch(attempt: Attempt, prepared: PreparedTask, sandbox: Sandbox) -> ExtractedPatch:
    """Extract the patch from the agent's sandbox and record it."""
    generated = attempt.row.task.task.oracle.generated
    try:
        patch = extract(prepared.environment.base_tree, sandbox.tree(), generated=generated)
    except PatchInvalid as fault:
        # The agent's work ended its own sandbox (disk or memory limit): nothing can be graded, and that counts against it.
        patch = _unusable(b"", fault.message)
    return _record_patch(attempt, patch)


def apply_given_patch(attempt: Attempt, prepared: PreparedTask) -> ExtractedPatch:
    """Apply the given patch to the base repository and record it in the same form as extracted patches."""
    attempt.log.append(
        Termination(
            code=TerminationCode.AGENT_STOPPED,
            category=None,
            rationale="patch made elsewhere",
            evidence=[attempt.log.count],
        )
    )
    configuration, base = attempt.row.configuration, prepared.environment.base_tree
    if configuration.patch_problem:
        return _record_patch(attempt, _unusable(b"", configuration.patch_problem))
    content = configuration.patch or b""
    try:
        after = PatchedTree(base, plan_writes(parse(content), base).writes)
    except PatchInvalid as fault:
        return _record_patch(attempt, _unusable(content, fault.message))
    patch = _record_patch(attempt, extract(base, after, generated=attempt.row.task.task.oracle.generated))
    run_task_scorers(attempt, base, after, patch)
    return patch


def run_task_scorers(
    attempt: Attempt, base: Tree, after: Tree, patch: ExtractedPatch, run: Callable[[Command], Completed] | None = None
) -> None:
    """Run the task's scorers on the workspace as the agent left it. They are reported and never affect the verdict.

    `run` runs a command in the sandbox of the agent, and is None if there is none.
    """
    if not attempt.row.task.scorers and not attempt.lab.scorers:
        return
    from agentbench.acceptance.scorers.engine import run_scorers  # noqa: PLC0415 - few tasks have scorers
    from agentbench.acceptance.scorers.workspace import Workspace  # noqa: PLC0415 - as above
    from agentbench.contract.scorers import OtherSpec, ScorerSpec, scorer_spec  # noqa: PLC0415 - as above

    attempt.report_phase("scorers")
    specs: list[ScorerSpec] = [scorer_spec(scorer) for scorer in attempt.row.task.scorers]
    specs += [OtherSpec(name=name, type=name, required=False) for name in attempt.lab.scorers]
    for result in run_scorers(specs, Workspace(base, after, patch, run)):
        attempt.log.append(result)


def _unusable(content: bytes, problem: str) -> ExtractedPatch:
    return ExtractedPatch(content, (), (), (), 0, 0, problem)


def _record_patch(attempt: Attempt, patch: ExtractedPatch) -> ExtractedPatch:
    redact = attempt.folder.redact
    # Only known values are replaced: strings that look like keys occur in honest fixtures, and scorers search for them.
    redacted = patch.patch if redact is None else redact.named(patch.patch)
    recorded = attempt.folder.evidence_of(FINAL_PATCH, patch.patch, redacted)
    attempt.folder.write_exact(FINAL_PATCH, recorded)
    event = patch_event(patch)
    if recorded != patch.patch:
        event = _about_recorded(event, recorded)
    attempt.log.append(event)
    findings = list(excluded_findings(patch))
    if redacted != patch.patch:
        values = () if attempt.secrets is None else attempt.secrets.values
        findings.append(_secret_finding(patch.patch, declared_secrets(attempt.row.task), values))
    for finding in findings:
        attempt.log.append(finding, "monitor")
    attempt.log.sync()
    return patch


def _about_recorded(event: PatchExtracted, recorded: bytes) -> PatchExtracted:
    """Describe the recorded text instead of the exact one, whose digest is kept beside it."""
    update = {"sha256": sha256_hex(recorded), "bytes": len(recorded), "exact_sha256": event.sha256}
    return event.model_copy(update=update)


def _secret_finding(patch: bytes, declared: Mapping[str, str], repository: Sequence[str]) -> IntegrityFinding:
    """Report a redacted patch: a tampering finding if it adds a secret of the task, else a note."""
    added = b"\n".join(line for line in patch.split(b"\n") if line.startswith(b"+"))
    leaked = [
        name for name, value in sorted(declared.items()) if Redactor({name: value}, shapes=False).named(added) != added
    ]
    if leaked:
        detail = f"patch contains declared secrets: {', '.join(leaked)}; replaced by placeholders in the recorded patch"
        return IntegrityFinding(rule=SECRET_RULE, severity="gate", detail=detail)
    own = Redactor({}, shapes=False)
    own.add_repository_secrets(repository)
    source = "a secret of the base repository" if own.named(patch) != patch else "an API key of this machine"
    detail = f"patch contains {source}; replaced by placeholders in the recorded patch, graded as it was"
    return IntegrityFinding(rule=SECRET_RULE, severity="note", detail=detail)
