"""Freeze a pilot, or amend its registration."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import ContractError, InputError
from agentbench.pilot.planning import Planning, compute_plan, require_written_plan, write_plan
from agentbench.pilot.registration import Registration, register
from agentbench.pilot.sample import task_identities
from agentbench.pilot.state import PilotState, is_frozen, read_registered_state


def freeze_pilot(folder: Path) -> Registration:
    """Register a pilot for the first time.

    Raises:
        InputError: it is frozen already, or its plan does not follow from `pilot.yaml`.
    """
    if is_frozen(folder):
        remedy = "register a change with `ab pilot freeze --amend --reason …`"
        raise InputError(f"{folder} is frozen already", remedy=remedy)
    planning = compute_plan(folder)
    require_written_plan(planning)
    return register(planning)


def amend_pilot(folder: Path, reason: str) -> Registration:
    """Plan again from `pilot.yaml`, and register the result as an amendment.

    Raises:
        InputError: the pilot is not frozen, or the new plan drops or moves an attempt that was made.
    """
    planning = compute_plan(folder)
    state = read_registered_state(folder)
    problems = _lost_attempts(state, planning)
    if problems:
        raise ContractError("an amendment must keep every attempt that was made", problems=tuple(problems))
    write_plan(planning)
    return register(planning, amends=state.registration, reason=reason)


def _lost_attempts(state: PilotState, planning: Planning) -> list[str]:
    """List attempts that the new plan does not contain in the same stage, or whose task has changed."""
    stages = {line.key: line.stage for line in state.lines}
    planned = {line.key: line.stage for line in planning.lines}
    made = sorted({record.key for record in state.records.all()})
    registered = {task.task_id: task.task_digest for task in state.registration.tasks}
    current = {str(task["task_id"]): task["task_digest"] for task in task_identities(planning.sample)}
    moved = [
        f"{method} at {task}, repeat {repeat}: not in stage {stages.get((task, method, repeat))} of the new plan"
        for task, method, repeat in made
        if (task, method, repeat) not in planned or planned[task, method, repeat] != stages.get((task, method, repeat))
    ]
    tasks = sorted({task for task, _, _ in made if current.get(task) != registered.get(task)})
    return [*moved, *(f"task {task} has changed since it was attempted" for task in tasks)]
