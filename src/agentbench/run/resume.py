"""Before a run goes on: is what it asked for still what is there, what is left to do, and what was spent already."""

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
    """The part of a plan that this run holds. One run, one set of tasks: what was begun on one contract is not finished on another.

    Raises:
        InputError: a task is gone or is not what it was, or no plan makes this run; nothing was written.
    """
    rows = [row for row in plan if row.configuration.variant == run.meta.get("variant")]
    tasks = {row.task.id: row.task for row in plan}
    listed = run.meta.get("tasks")
    gone = [str(name) for name in listed if name not in tasks] if isinstance(listed, list) else []
    if gone or not rows:
        msg = f"{run.path} cannot be resumed: there is no way to plan its attempts{' at ' if gone else ''}{', '.join(gone)} again"
        raise InputError(msg, remedy="put the tasks back; what `ab grade` began is graded again by a new `ab grade`")
    now: dict[str, str] = {}
    for task_id, then in _begun_on(run):
        if task_id in tasks and now.setdefault(task_id, identify(tasks[task_id]).task_digest) != then:
            msg = f"{run.path} cannot be resumed: task {task_id} is not what it was when its attempts were made"
            raise InputError(msg, remedy="put it back as it was, or start a new run")
    return rows


def left_to_do(run: RunDirectory, rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Rows without a record that stands."""
    done = {one.key for one in run.finals() if one.result.failure_reason is not Reason.INTERRUPTED}
    return [row for row in rows if row.key not in done]


def spent_before(run: RunDirectory) -> Iterator[AttemptRecord]:
    """Every record of the study that this run is part of: what was interrupted has cost something too, and so have other methods."""
    for path in sorted(run.path.absolute().parent.iterdir()):
        try:
            other = RunDirectory.open(path)
            if other.meta.get("study_id") == run.study_id:
                yield from other.records()
        except AgentBenchError:
            continue


def _begun_on(run: RunDirectory) -> Iterator[tuple[str, str]]:
    """Task and digest of every attempt that was begun."""
    for record in run.records():
        yield record.task_id, record.task_digest
    for folder in run.unfinished():
        if (folder.path / EVENTS).exists():
            for event in read_events(folder.path / EVENTS, types={AttemptOpened.type}):
                if isinstance(event.payload, AttemptOpened):
                    yield event.payload.task_id, event.payload.task_digest
