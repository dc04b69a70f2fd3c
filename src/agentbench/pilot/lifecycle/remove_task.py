"""Remove a task from a pilot, if the records support the claim that it is invalid."""

from __future__ import annotations

from pathlib import Path

from agentbench.contract.problem import did_you_mean
from agentbench.core.errors import InputError
from agentbench.pilot.decisions.removals import Removal, RemovalCause, append_removal, claim_evidence, contrary_evidence
from agentbench.pilot.errors import CriterionNotMet
from agentbench.pilot.pilot_state import read_unchanged_state


def remove_task(folder: Path, task_id: str, cause: RemovalCause, *, reason: str, by: str) -> Removal:
    """Check the claim, and log the removal.

    Raises:
        InputError: the pilot is not frozen, or the task is unknown or removed already.
        CriterionNotMet: no record supports the claim.
    """
    state = read_unchanged_state(folder)
    known = [task.task_id for task in state.registration.tasks]
    if task_id not in known:
        raise InputError(f"task {task_id} is not registered{did_you_mean(task_id, known)}")
    if task_id in state.removed:
        raise InputError(f"task {task_id} was removed already")
    evidence = claim_evidence(task_id, cause, state.screen, state.observations)
    if evidence is None:
        shown = contrary_evidence(task_id, state.screen, state.observations)
        remedy = "only tasks that are objectively invalid can be removed"
        raise CriterionNotMet(f"no record shows that task {task_id} is invalid ({cause}): {shown}", remedy=remedy)
    removal = Removal(task_id, cause, reason, by, evidence, state.registration.registration_id, state.records.seen)
    append_removal(folder, removal)
    return removal
