"""Takes the evidence of an attempt that a node sent into the run. It is checked first: a node can be broken.

Evidence that is not that of the attempt costs the attempt, not the run: the attempt is closed as a harness error, with the log that
the node sent beside its own.
"""

from __future__ import annotations

import shutil

from agentbench.core.errors import AgentBenchError, HarnessError, RecordError
from agentbench.execution.attempt.pipeline import close_abandoned
from agentbench.execution.job import AttemptJob
from agentbench.record.attempt_folder import EVENTS, AttemptFolder
from agentbench.record.schema import AttemptRecord
from agentbench.record.sealing import ClosedAttempt, closed_attempt

REJECTED = "meta/rejected_events.jsonl"


def adopt(job: AttemptJob, cause: AgentBenchError) -> AttemptRecord:
    """Take the record of an attempt into the run. If its log was not closed, close it with the cause.

    Raises:
        RecordError: the run directory cannot be written.
    """
    try:
        closed = _closed(job) or _close(job, cause)
    except RecordError as error:
        _set_aside(job.folder)
        closed = _close(job, HarnessError(f"the evidence that the node sent is not valid: {error.message}"))
    return job.run.adopt(job.folder, closed)


def _close(job: AttemptJob, cause: AgentBenchError) -> ClosedAttempt:
    return close_abandoned(job.row, job.lab, job.folder, base_seed=job.base_seed, cause=cause)


def _closed(job: AttemptJob) -> ClosedAttempt | None:
    closed = closed_attempt(job.folder)
    if closed is not None and (wrong := _wrong_fields(job, closed.record)):
        raise RecordError(f"its record is not that of this attempt: {', '.join(wrong)}")
    return closed


def _wrong_fields(job: AttemptJob, record: AttemptRecord) -> list[str]:
    folder, row = job.folder, job.row
    expected: dict[str, object] = {
        "study_id": folder.study_id,
        "run_id": folder.run_id,
        "attempt_id": folder.attempt_id,
        "supersedes": folder.supersedes,
        "task_id": folder.task_id,
        "variant": row.configuration.variant,
        "repeat": folder.repeat,
        "final": True,
    }
    return [name for name, value in expected.items() if getattr(record, name) != value]


def _set_aside(folder: AttemptFolder) -> None:
    """Keep the log that the node sent, and nothing else of it."""
    log = folder.path / EVENTS
    kept = folder.path.with_name(f".rejected-{folder.attempt_id}")
    try:
        if log.is_file():
            log.rename(kept)
        shutil.rmtree(folder.path)
        folder.make()
        if kept.exists():
            kept.rename(folder.path / REJECTED)
    except OSError as error:
        raise RecordError.of("write", folder.path, error) from error
