"""One attempt as a job for an executor: make it on a thread of this process, or elsewhere and bring its evidence here.

A job exists for an attempt that is registered in its run directory already, so attempts are registered in the order in which
an executor takes their jobs, whichever worker is faster. If its record is never taken into the run, resuming the run closes
the attempt and makes it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentbench.core.dataclass import dataclass
from agentbench.execution.attempt.pipeline import make_attempt
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.sandbox.protocol import SetupStep

if TYPE_CHECKING:
    from agentbench.execution.operator import PendingQuestion


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The nodes that make attempts of a run."""

    attempts: Mapping[str, int]
    """Running attempts by node."""
    waiting: int
    """Attempts that wait for a node."""
    sent_bytes: int
    """Content that nodes have fetched."""
    received_bytes: int
    """Evidence and messages of nodes."""


class Observer(Protocol):
    """Shows the progress of a study. Called from worker threads; must be quick and must not raise."""

    def warn(self, message: str) -> None: ...

    def note(self, message: str) -> None:
        """Something that concerns the run as a whole, such as a preparation that takes long."""
        ...

    def installing(self, agent: str, step: SetupStep) -> None:
        """One step of installing an agent that is a program has finished."""
        ...

    def asked(self, run: Path, question: PendingQuestion) -> None:
        """An attempt waits for an operator."""
        ...

    def cluster(self, status: ClusterStatus) -> None:
        """The state of the cluster, every few seconds, if the attempts run on one."""
        ...

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...


@dataclass(frozen=True, slots=True)
class AttemptJob:
    """One registered attempt, ready to run."""

    row: PlanRow
    folder: AttemptFolder
    run: RunDirectory
    lab: Lab
    base_seed: int
    observer: Observer
    relaunch: Callable[[str], AttemptJob] | None = None
    """Registers an attempt of the same row that supersedes the given one, for executors that repeat harness errors of a
    worker. None if the study must not have further attempts."""

    def __call__(self) -> None:
        """Make the attempt in this process.

        Raises:
            RecordError: the run directory cannot be written, so no other attempt could be recorded either.
        """
        self.observer.started(self.row)
        closed, failure = make_attempt(
            self.row,
            self.lab,
            self.folder,
            base_seed=self.base_seed,
            report_phase=lambda phase: self.observer.phase(self.row, phase),
        )
        record = self.run.adopt(self.folder, closed)
        if failure is not None:
            raise failure
        self.observer.finished(self.row, record)
