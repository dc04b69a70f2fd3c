"""One attempt as a job for an executor: run it on a thread of this process, or send it to another process as plain data.

job()                       make the whole attempt here

remote = job.begin()        here: register the attempt in its run directory
remote.run()                anywhere that sees the run directory; `remote` can be pickled
job.adopt(remote)           here: take its record into the run
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentbench.policy.prices import Prices
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.kept_rules import keep_rules
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.run.attempt.pipeline import make_attempt
from agentbench.run.lab import Lab
from agentbench.run.models import Models
from agentbench.run.plan import PlanRow
from agentbench.sandbox.protocol import SetupStep

if TYPE_CHECKING:
    from agentbench.run.attempt.judge import JudgeChoice
    from agentbench.run.operator import PendingQuestion


class Observer(Protocol):
    """Shows the progress of a study. Called from worker threads; must be quick and must not raise."""

    def warn(self, message: str) -> None: ...

    def installing(self, agent: str, step: SetupStep) -> None:
        """One step of installing an agent that is a program has finished."""
        ...

    def asked(self, run: Path, question: PendingQuestion) -> None:
        """An attempt waits for an operator."""
        ...

    def planned(self, rows: int) -> None: ...

    def started(self, row: PlanRow) -> None: ...

    def phase(self, row: PlanRow, phase: str) -> None: ...

    def finished(self, row: PlanRow, record: AttemptRecord) -> None: ...


@dataclass(frozen=True, slots=True)
class LabSettings:
    """The settings with which another process opens an equal lab. API keys are not among them: each process has its own."""

    sandbox: str
    state: Path
    fresh_setup: bool
    operator: bool
    judge: JudgeChoice | None
    prices: Prices
    lenient: bool
    patience_sec: float

    @classmethod
    def of(cls, lab: Lab) -> LabSettings:
        models = lab.models
        return cls(
            lab.sandbox,
            lab.state,
            lab.fresh_setup,
            lab.operator,
            lab.judge,
            models.prices,
            models.lenient,
            models.patience_sec,
        )

    def open(self, folder: AttemptFolder) -> Lab:
        models = Models(prices=self.prices, lenient=self.lenient, patience_sec=self.patience_sec, redact=folder.redact)
        return Lab(
            sandbox=self.sandbox,
            state=self.state,
            fresh_setup=self.fresh_setup,
            models=models,
            operator=self.operator,
            judge=self.judge,
        )


@dataclass(frozen=True, slots=True)
class RemoteAttempt:
    """A registered attempt that any process can execute."""

    row: PlanRow
    folder: AttemptFolder
    base_seed: int
    lab: LabSettings

    def run(self) -> None:
        """Make the attempt and close its log. Needs the run directory and the state folder.

        Raises:
            RecordError: its folder cannot be written.
        """
        with self.lab.open(self.folder) as lab:
            _, failure = make_attempt(self.row, lab, self.folder, base_seed=self.base_seed)
        if failure is not None:
            raise failure


@dataclass(frozen=True, slots=True)
class AttemptJob:
    """One row of the plan, ready to run."""

    row: PlanRow
    supersedes: str | None
    run: RunDirectory
    lab: Lab
    base_seed: int
    observer: Observer

    def __call__(self) -> None:
        """Make the attempt in this process.

        Raises:
            RecordError: the run directory cannot be written, so no other attempt could be recorded either.
        """
        if self.lab.cancelled.is_set():
            return
        self.observer.started(self.row)
        folder = self._register()
        closed, failure = make_attempt(
            self.row,
            self.lab,
            folder,
            base_seed=self.base_seed,
            report_phase=lambda phase: self.observer.phase(self.row, phase),
        )
        record = self.run.adopt(folder, closed)
        if failure is not None:
            raise failure
        self.observer.finished(self.row, record)

    def begin(self) -> RemoteAttempt:
        """Register the attempt. If it is never adopted, resuming the run closes it and makes it again."""
        self.observer.started(self.row)
        return RemoteAttempt(self.row, self._register(), self.base_seed, LabSettings.of(self.lab))

    def adopt(self, remote: RemoteAttempt) -> None:
        """Take the record of a finished remote attempt into the run.

        Raises:
            RecordError: the attempt did not finish, or its record cannot be written.
        """
        self.observer.finished(self.row, self.run.adopt(remote.folder))

    def _register(self) -> AttemptFolder:
        keep_rules(self.run.path)
        return self.run.begin(self.row.task.id, self.row.repeat, supersedes=self.supersedes)
