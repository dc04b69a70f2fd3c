"""One attempt as work that can be given to somebody: to a thread of this process, or as plain data to another one.

job = AttemptJob(study parts, row, supersedes)
job()                                     all of it, here

errand = job.begin()                      here: the attempt is registered in its run
errand.carry_out()                        anywhere that sees the run directory; an errand can be pickled
job.adopt(errand)                         here: its record is taken into the run
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentbench.policy.prices import Prices
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.kept_rules import keep_rules
from agentbench.record.run_directory import RunDirectory
from agentbench.run.attempt.judge import JudgeChoice
from agentbench.run.attempt.pipeline import make_attempt
from agentbench.run.lab import Lab
from agentbench.run.models import Models
from agentbench.run.observer import Observer
from agentbench.run.plan import PlanRow


@dataclass(frozen=True, slots=True)
class LabPlan:
    """What another process needs to open a lab like this one. Keys are not in it: who asks a model has keys of its own."""

    sandbox: str
    state: Path
    fresh_setup: bool
    operator: bool
    judge: JudgeChoice | None
    prices: Prices
    lenient: bool

    @classmethod
    def of(cls, lab: Lab) -> LabPlan:
        return cls(
            lab.sandbox, lab.state, lab.fresh_setup, lab.operator, lab.judge, lab.models.prices, lab.models.lenient
        )

    def open(self, folder: AttemptFolder) -> Lab:
        models = Models(prices=self.prices, lenient=self.lenient, redact=folder.redact)
        lab = Lab(sandbox=self.sandbox, state=self.state, fresh_setup=self.fresh_setup, models=models)
        lab.operator, lab.judge = self.operator, self.judge
        return lab


@dataclass(frozen=True, slots=True)
class AttemptErrand:
    """An attempt that is registered and not made yet."""

    row: PlanRow
    folder: AttemptFolder
    base_seed: int
    lab: LabPlan

    def carry_out(self) -> None:
        with self.lab.open(self.folder) as lab:
            _, failure = make_attempt(self.row, lab, self.folder, base_seed=self.base_seed)
        if failure is not None:
            raise failure


@dataclass(frozen=True, slots=True)
class AttemptJob:
    """One row of a plan, to be carried out."""

    row: PlanRow
    supersedes: str | None
    run: RunDirectory
    lab: Lab
    base_seed: int
    observer: Observer

    def __call__(self) -> None:
        """
        Raises:
            RecordError: the run directory cannot be written: no other attempt could be either.
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
            tell=lambda phase: self.observer.phase(self.row, phase),
        )
        record = self.run.adopt(folder, closed)
        if failure is not None:
            raise failure
        self.observer.finished(self.row, record)

    def begin(self) -> AttemptErrand:
        self.observer.started(self.row)
        return AttemptErrand(self.row, self._register(), self.base_seed, LabPlan.of(self.lab))

    def adopt(self, errand: AttemptErrand) -> None:
        self.observer.finished(self.row, self.run.adopt(errand.folder))

    def _register(self) -> AttemptFolder:
        keep_rules(self.run.path)
        return self.run.begin(self.row.task.id, self.row.repeat, supersedes=self.supersedes)
