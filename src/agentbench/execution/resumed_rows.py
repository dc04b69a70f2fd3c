"""Select the attempts of a plan that an existing run made or still has to make. Its tasks must not have changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench.contract.identity import identify
from agentbench.contract.lock import Identities
from agentbench.core.errors import InputError
from agentbench.core.text import printable
from agentbench.execution.plan import PlanRow
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.events import AttemptOpened
from agentbench.trace.log import read_events

CONTRACT_PARTS = "repository, environment, setup, checks (with hidden files and drivers) or policy"
STATEMENT_PARTS = "statement, hints, turns, budget, scorers, judge or rubric"
"""Parts of a task that its contract id covers, and those that only its digest covers."""


def rows_of(run: RunDirectory, plan: Sequence[PlanRow]) -> list[PlanRow]:
    """Select the rows of a plan that belong to this run, whose tasks must be the ones it started with.

    Raises:
        InputError: a task is missing or has changed, or the plan has no attempt of this run; nothing was written.
    """
    rows = [row for row in plan if row.configuration.variant == run.meta.get("variant")]
    tasks = {row.task.id: row.task for row in plan}
    order = run.meta.get("order")
    if isinstance(order, list):
        planned = {tuple(key) for key in order if isinstance(key, list)}
        rows = [row for row in rows if row.key in planned]
    listed = run.meta.get("tasks")
    missing = [str(name) for name in listed if name not in tasks] if isinstance(listed, list) else []
    if missing:
        msg = f"{run.path} cannot be resumed: missing tasks: {', '.join(missing)}"
        raise InputError(msg, remedy="restore the tasks")
    if not rows:
        msg = f"{run.path} cannot be resumed: its request has no method '{printable(str(run.meta.get('variant')))}'"
        remedy = "repeat the command that made it, if that was `ab grade` or `ab demo`; otherwise restore the variant"
        raise InputError(msg, remedy=remedy)
    current: dict[str, Identities] = {}
    changed: dict[str, str] = {}
    for task_id, contract_id, task_digest in _recorded_digests(run):
        if task_id in tasks:
            ids = current.setdefault(task_id, identify(tasks[task_id]))
            if ids.task_digest != task_digest:
                changed[task_id] = STATEMENT_PARTS if ids.contract_id == contract_id else CONTRACT_PARTS
    if changed:
        details = "; ".join(
            f"task {task_id} has changed since the run started: {what}" for task_id, what in changed.items()
        )
        raise InputError(f"{run.path} cannot be resumed: {details}", remedy="restore the task, or start a new run")
    return rows


def _recorded_digests(run: RunDirectory) -> Iterator[tuple[str, str, str]]:
    """Read the task id, contract id and task digest of every attempt that was started."""
    for record in run.records():
        yield record.task_id, record.contract_id, record.task_digest
    for folder in run.unfinished():
        if (folder.path / EVENTS).exists():
            for event in read_events(folder.path / EVENTS, types={AttemptOpened.type}):
                if isinstance(event.payload, AttemptOpened):
                    yield event.payload.task_id, event.payload.contract_id, event.payload.task_digest
