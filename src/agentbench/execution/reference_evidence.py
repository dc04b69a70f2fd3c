"""Keeps the reference evidence of a grading with its attempt, and finds it again for a replay.

`meta/reference.json` says which tests are decoys, so only its owner can read it; it does not have the reference. Its digest is
sealed with the other files, and the log has the digest of every decoy plan.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.reference_evidence import PLAN, RecordedEvidence, ReferenceEvidence
from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.task_files import read_bytes
from agentbench.core.canonical import digest, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.execution.task_bundle import Bundle, write_private
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.trace.redaction import Redactor, redact_bytes

REFERENCE = "meta/reference.json"


@dataclass(frozen=True, slots=True)
class RecordedDecoys:
    """The decoys of a check as its log has them."""

    check_id: str
    plan: str
    """Digest of the plan; empty in logs of versions that did not record it."""


def write_evidence_of_reference(folder: AttemptFolder, context: GradingContext) -> None:
    """Write the evidence that a grading used, if it used any.

    Raises:
        RecordError: it cannot be written.
    """
    data = context.reference_evidence.to_record(_sha256(context.loaded.reference_file))
    if data:
        write_private(folder.path, REFERENCE, folder.evidence_of(REFERENCE, data, redact_bytes(data, folder.redact)))


def with_reference(
    bundle: Bundle, data: bytes | None, decoys: list[RecordedDecoys], redact: Redactor
) -> tuple[LoadedTask, ReferenceEvidence]:
    """Return the packed task with its reference, if that is still in the task's folder, and the evidence for grading it again.

    `data` is the content of the attempt's `meta/reference.json`, or None if it has none.

    Raises:
        InputError: the attempt was graded with decoys, and they cannot be had: neither recorded nor drawn again.
    """
    recorded = None if data is None else _recorded(data, redact)
    task = _with_reference(bundle, recorded)
    problems = [problem for check in decoys if (problem := _problem(recorded, check))]
    if problems and task.reference_file is None:
        msg = f"{problems[0]}, and its reference is not at {bundle.origin}"
        raise InputError(
            f"decoy tests are unavailable: {msg}",
            remedy="replay the run directory where it was recorded, or restore the task with its reference there",
        )
    return task, ReferenceEvidence(None if problems else recorded)


def _recorded(data: bytes, redact: Redactor) -> RecordedEvidence | None:
    try:
        return RecordedEvidence.model_validate_json(redact.restore(data))
    except ValidationError:
        return None


def _problem(recorded: RecordedEvidence | None, check: RecordedDecoys) -> str:
    """Return why the recorded plan of a check cannot be used; empty if it can."""
    plan = recorded.results.get(f"{check.check_id}/{PLAN}") if recorded else None
    if plan is None:
        return f"{REFERENCE} has no decoy plan of check {check.check_id}"
    if check.plan and digest(plan.value) != check.plan:
        return f"{REFERENCE} differs from the log about the decoys of check {check.check_id}"
    return ""


def _with_reference(bundle: Bundle, recorded: RecordedEvidence | None) -> LoadedTask:
    """Return the task with the reference of its original folder, or without one if that is gone or another one."""
    without = replace(bundle.task, task=bundle.task.task.model_copy(update={"reference": None}))
    name = bundle.task.task.reference
    if name is None:
        return without
    try:
        original = load_task(bundle.origin).reference_file
        content = None if original is None else read_bytes(original)
    except AgentBenchError:
        content = None
    if content is None or (recorded and recorded.reference_sha256 not in {None, sha256_hex(content)}):
        return without
    target = bundle.task.folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return bundle.task


def _sha256(file: Path | None) -> str | None:
    try:
        return None if file is None else sha256_hex(read_bytes(file))
    except AgentBenchError:
        return None
