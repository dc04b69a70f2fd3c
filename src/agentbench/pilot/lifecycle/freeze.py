"""Freeze a pilot, or amend its registration."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import ContractError, InputError
from agentbench.pilot.design.pilot_design import PilotDesign, read_design, require_written_plan_files, write_plan_files
from agentbench.pilot.design.sample import task_identities
from agentbench.pilot.pilot_state import PilotState, is_frozen, read_registered_state
from agentbench.pilot.registration.registration import Registration
from agentbench.pilot.registration.write_registration import register
from agentbench.signing.keys import SigningKey


def freeze_pilot(folder: Path, key: SigningKey | None = None) -> Registration:
    """Register a pilot for the first time, and sign the registration if there is a key.

    Raises:
        InputError: it is frozen already, or its plan does not follow from `pilot.yaml`.
    """
    if is_frozen(folder):
        remedy = "register a change with `ab pilot freeze --amend --reason …`"
        raise InputError(f"{folder} is frozen already", remedy=remedy)
    design = read_design(folder)
    require_written_plan_files(design)
    return register(design, key=key)


def amend_pilot(folder: Path, reason: str, key: SigningKey | None = None) -> Registration:
    """Plan again from `pilot.yaml`, and register the result as an amendment.

    Raises:
        InputError: the pilot is not frozen, or the new plan drops or moves an attempt that was made.
    """
    design = read_design(folder)
    state = read_registered_state(folder)
    problems = _lost_attempts(state, design)
    if problems:
        raise ContractError("an amendment must keep every attempt that was made", problems=tuple(problems))
    write_plan_files(design)
    return register(design, amends=state.registration, reason=reason, key=key)


def _lost_attempts(state: PilotState, design: PilotDesign) -> list[str]:
    """List attempts that the new plan does not contain in the same stage, or whose task has changed."""
    stages = {line.key: line.stage for line in state.lines}
    planned = {line.key: line.stage for line in design.lines}
    attempted = sorted({record.key for record in state.records.all()})
    registered = {task.task_id: task.task_digest for task in state.registration.tasks}
    current = {str(task["task_id"]): task["task_digest"] for task in task_identities(design.sample)}
    moved = [
        f"{method} at {task}, repeat {repeat}: not in stage {stages.get((task, method, repeat))} of the new plan"
        for task, method, repeat in attempted
        if (task, method, repeat) not in planned or planned[task, method, repeat] != stages.get((task, method, repeat))
    ]
    tasks = sorted({task for task, _, _ in attempted if current.get(task) != registered.get(task)})
    return [*moved, *(f"task {task} has changed since it was attempted" for task in tasks)]
