"""Checks before a run is resumed: its tasks are unchanged, which attempts remain, and what was spent already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentbench.contract.identity import identify
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.core.reasons import Reason
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.run.plan import PlanRow
from agentbench.trace.events import AttemptOpened
from agentbench.trace.log import read_events


def rows_of(run: RunDirectory, plan: Sequence[PlanRow]) -> list[PlanRow]:
    """Select the rows of a plan that belong to this run, whose tasks must be the ones it started with.

    Raises:
        InputError: a task is missing or has changed, or the plan has no attempt of this run; nothing was written.
    """
    rows = [row for row in plan if row.configuration.variant == run.meta.get("variant")]
    tasks = {row.task.id: row.task for row in plan}
    listed = run.meta.get("tasks")
    missing = [str(name) for name in listed if name not in tasks] if isinstance(listed, list) else []
    if missing or not rows:
        cause = f"missing tasks: {', '.join(missing)}" if missing else "its attempts cannot be planned again"
        msg = f"{run.path} cannot be resumed: {cause}"
        raise InputError(msg, remedy="restore the tasks; to continue an `ab grade` run, start a new `ab grade`")
    digests: dict[str, str] = {}
    for task_id, recorded in _recorded_digests(run):
        if task_id in tasks and digests.setdefault(task_id, identify(tasks[task_id]).task_digest) != recorded:
            msg = f"{run.path} cannot be resumed: task {task_id} has changed since the run started"
            raise InputError(msg, remedy="restore the task, or start a new run")
    return rows


def remaining_rows(run: RunDirectory, rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Select the rows without a final record, or whose attempt was interrupted."""
    done = {record.key for record in run.finals() if record.result.failure_reason is not Reason.INTERRUPTED}
    return [row for row in rows if row.key not in done]


def study_records(run: RunDirectory) -> Iterator[AttemptRecord]:
    """Read every record of the study, interrupted attempts and other variants included: all of them cost something."""
    for path in sorted(run.path.absolute().parent.iterdir()):
        try:
            other = RunDirectory.open(path)
            if other.meta.get("study_id") == run.study_id:
                yield from other.records()
        except AgentBenchError:
            continue


def _recorded_digests(run: RunDirectory) -> Iterator[tuple[str, str]]:
    """Read the task id and task digest of every attempt that was started."""
    for record in run.records():
        yield record.task_id, record.task_digest
    for folder in run.unfinished():
        if (folder.path / EVENTS).exists():
            for event in read_events(folder.path / EVENTS, types={AttemptOpened.type}):
                if isinstance(event.payload, AttemptOpened):
                    yield event.payload.task_id, event.payload.task_digest
