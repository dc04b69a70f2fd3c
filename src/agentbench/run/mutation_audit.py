"""The audit of oracles, task by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentbench.acceptance.mutation.audit import Audit, audit
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import InputError, TaskError
from agentbench.run.lab import Lab


def audit_tasks(
    tasks: Sequence[LoadedTask], lab: Lab, *, wanted: int, workers: int, tell: Callable[[str], None]
) -> list[Audit]:
    """One task after the other; its variants at the same time. A task's own trouble is its result, ours is raised.

    Raises:
        InputError: a task without a repository.
        SandboxError: ours.
    """
    found: list[Audit] = []
    for task in tasks:
        if task.task.repo == "none":
            raise InputError(f"task {task.id} has no repository and no oracle that could be audited")
        lab.require(task)
    for task in tasks:
        tell(f"{task.id}: setup")
        try:
            prepared = lab.prepare(task)
        except TaskError as error:
            found.append(Audit(task.id, "error", "none", f"setup: {error.message}"))
            continue
        found.append(audit(lab.grading_context(prepared), wanted=wanted, workers=workers, report=tell))
    return found
