"""The progress of a run as a stream of objects, for programs that show it themselves."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from agentbench.core.dataclass import dataclass

if TYPE_CHECKING:
    from agentbench.execution.job import ClusterStatus
    from agentbench.execution.operator import PendingQuestion
    from agentbench.execution.plan import PlanRow
    from agentbench.record.schema import AttemptRecord
    from agentbench.sandbox.protocol import SetupStep


@dataclass(frozen=True, slots=True)
class RunPlanned:
    """The run starts."""

    attempts: int
    """Number of attempts that it makes."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """An attempt starts."""

    task_id: str
    variant: str
    repeat: int


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """An attempt enters a phase, such as `setup`, `agent` or `grading`."""

    task_id: str
    variant: str
    repeat: int
    phase: str


@dataclass(frozen=True, slots=True)
class AttemptFinished:
    """An attempt has its record."""

    attempt: AttemptRecord


@dataclass(frozen=True, slots=True)
class OperatorAsked:
    """An attempt waits for a person; `ab operator decide` answers."""

    run: Path
    question_id: str
    task_id: str
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """A warning, or a step of preparing an agent."""

    message: str


ProgressEvent: TypeAlias = RunPlanned | AttemptStarted | PhaseStarted | AttemptFinished | OperatorAsked | Note
OnEvent: TypeAlias = Callable[[ProgressEvent], None]


class EventObserver:
    """Passes the progress of a study to a function, one event at a time. An error of the function does not end the run."""

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._lock = threading.Lock()

    def warn(self, message: str) -> None:
        self._send(Note(message))

    def note(self, message: str) -> None:
        self._send(Note(message))

    def cluster(self, status: ClusterStatus) -> None:
        """Left out: runs of this API use threads of this process."""

    def installing(self, agent: str, step: SetupStep) -> None:
        self._send(Note(f"{agent}: installing: {step.command}"))

    def asked(self, run: Path, question: PendingQuestion) -> None:
        self._send(OperatorAsked(run, question.id, question.task_id, question.detail))

    def planned(self, rows: int) -> None:
        self._send(RunPlanned(rows))

    def started(self, row: PlanRow) -> None:
        self._send(AttemptStarted(row.task.id, row.configuration.variant, row.repeat))

    def phase(self, row: PlanRow, phase: str) -> None:
        self._send(PhaseStarted(row.task.id, row.configuration.variant, row.repeat, phase))

    def finished(self, row: PlanRow, record: AttemptRecord) -> None:
        self._send(AttemptFinished(record))

    def _send(self, event: ProgressEvent) -> None:
        with self._lock:
            if self._on_event is None:
                return
            try:
                self._on_event(event)
            except Exception as error:  # noqa: BLE001 - code of the caller, on a worker thread
                self._on_event = None
                warnings.warn(f"on_event raised {error!r} and is not called again", RuntimeWarning, stacklevel=2)
