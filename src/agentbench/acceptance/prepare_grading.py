"""Prepare the grading of a task: make every result that gradings share, before the first patch arrives."""

from __future__ import annotations

from agentbench.acceptance.candidate import BuildFailed, Candidate
from agentbench.acceptance.checks.pytest.check import PytestCheck
from agentbench.acceptance.decoys.decoy_plan import decoy_plan
from agentbench.acceptance.grade import protection_of
from agentbench.acceptance.grading_context import GradingContext
from agentbench.acceptance.replica import base_entries
from agentbench.acceptance.validation import baseline
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.core.errors import PatchInvalid, TaskError


def prepare_grading(context: GradingContext) -> None:
    """Run the baseline, and plan the decoys of every pytest check with the reference; both are cached.

    Raises:
        TaskError: the checks cannot be run on the base repository or with the reference.
        SandboxError: the sandbox failed.
    """
    context = context.unlogged()
    baseline(context)
    candidate = Candidate(context, base_entries(context), protection=protection_of(context))
    for check in context.loaded.checks:
        command = parse_pytest_command(check.command or "") if check.parser == "pytest" else None
        if command is None:
            continue
        try:
            decoy_plan(PytestCheck(candidate, check, command))
        except (BuildFailed, PatchInvalid) as error:
            raise TaskError(f"check {check.id} with the reference: {error}") from error
