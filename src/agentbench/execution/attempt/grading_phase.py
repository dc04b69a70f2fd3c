"""The end of every attempt: grade its patch, then ask the judge model if the study has one."""

from __future__ import annotations

from agentbench.acceptance.grade import grade
from agentbench.execution.attempt.base import Attempt
from agentbench.execution.lab import PreparedTask
from agentbench.execution.reference_evidence import write_evidence_of_reference
from agentbench.workspace.diff.extract import ExtractedPatch


def grade_patch(attempt: Attempt, prepared: PreparedTask, patch: ExtractedPatch) -> None:
    """Grade the patch in fresh sandboxes that the agent never touched."""
    attempt.report_phase("grading")
    context = attempt.grading_context(prepared)
    try:
        grade(patch.patch, context, problem=patch.problem)
    finally:
        write_evidence_of_reference(attempt.folder, context)


def ask_judge(attempt: Attempt, patch: bytes) -> None:
    """Ask the judge model, if the study has one. The verdict is already in the log and does not depend on it."""
    judge = attempt.lab.judge
    if judge is not None and attempt.row.task.judge_enabled:
        attempt.report_phase("judge")
        result = judge.ask(attempt.row, attempt.lab.models, patch, attempt.events_for_judge, attempt.blobs)
        attempt.log.append(result)
