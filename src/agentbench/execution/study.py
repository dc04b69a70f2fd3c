"""Make all attempts of one `ab run`.

A `Study` holds the attempts of one request: several variants have one run directory each and share a `study_id`. Attempts run
on the executor's workers. The study can be interrupted at any moment and resumed afterwards. `open_study.py` opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import REPEATED_ON_RESUME, InvalidCause, TerminationCode
from agentbench.execution.attempt.pipeline import close_abandoned
from agentbench.execution.executor import Executor
from agentbench.execution.job import AttemptJob, Observer
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.execution.stopping import Stopping
from agentbench.record.kept_rules import keep_rules
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.sandbox.socket_forward import remove_stale_sockets
from agentbench.verdict.headline import judged_only

EXIT_INPUT = 2
EXIT_HARNESS = 3
Again = Callable[[AttemptRecord], bool]


@dataclass(frozen=True, slots=True)
class StudyResult:
    """The run directories of a study that was executed."""

    runs: tuple[Path, ...]
    stop_reason: str | None = None
    """The decision of the stopping rule in words; None if there is none."""

    def records(self) -> Iterator[AttemptRecord]:
        """Read the final records from disk: a study can have more than should be held in memory."""
        return (record for path in self.runs for record in RunDirectory.open(path).finals())

    def repeatable(self) -> dict[Path, list[AttemptRecord]]:
        """List the attempts of each run that have no result and that resuming it would repeat."""
        repeated = {path: [*filter(is_repeatable, RunDirectory.open(path).finals())] for path in self.runs}
        return {path: records for path, records in repeated.items() if records}

    @property
    def exit_code(self) -> int:
        """Return 0 if an attempt has a result, also if the agent failed. Without any, 3 for harness errors, else 2."""
        causes = {_cause(record) for record in self.records()}
        if not causes or None in causes:
            return 0
        return EXIT_HARNESS if InvalidCause.HARNESS in causes else EXIT_INPUT


@dataclass(slots=True)
class Study:
    """The attempts to make, and the run directory of each variant."""

    rows: Sequence[PlanRow]
    lab: Lab
    runs: Mapping[str, RunDirectory]
    base_seed: int
    executor: Executor
    observer: Observer
    again: Again | None = None
    """Attempts to repeat although they have a final record; by default those that were interrupted."""
    stopping: Stopping | None = None
    """The rule that can end the study before all rows are made."""
    admit: Callable[[], bool] | None = None
    """Asked before each attempt whether it may start. Once it returns False, no further attempt starts."""
    choose_id: Callable[[PlanRow], str] | None = None
    """Chooses the id of an attempt when it is launched; None for a new one."""

    def execute(self) -> None:
        """Make every attempt that has no final record yet, until the stopping rule decides.

        Raises:
            KeyboardInterrupt: after every running attempt was recorded as interrupted.
            RecordError: a run directory cannot be written; no further attempt was started.
            HarnessError: the executor lost all its workers; no further attempt was started.
        """
        executor = self.executor
        pending = remaining_rows(self.runs.values(), self.rows, self.again)
        self.observer.planned(len(pending))
        self.lab.yield_worker = executor.yield_worker
        for sockets in ("gateway", "proxy"):
            remove_stale_sockets(self.lab.state / sockets)
        try:
            if self.stopping is None:
                self._make(pending)
            else:
                self._make_until_decided(self.stopping)
        except BaseException:
            # Ctrl-C, or a worker that could not write its record: running attempts end now, as interrupted.
            self.lab.cancel()
            raise
        finally:
            executor.join()

    def _make(self, pending: Sequence[tuple[PlanRow, str | None]]) -> None:
        """Launch attempts one after the other, each when a worker is free for it: taking a job registers its attempt."""
        self.executor.run(
            self._launch(row, supersedes)
            for row, supersedes in pending
            if not self.lab.cancelled.is_set() and (self.admit is None or self.admit())
        )

    def _launch(self, row: PlanRow, supersedes: str | None) -> AttemptJob:
        run = self.runs[row.configuration.variant]
        keep_rules(run.path)
        attempt_id = None if self.choose_id is None else self.choose_id(row)
        folder = run.begin(row.task.id, row.repeat, supersedes=supersedes, attempt_id=attempt_id)
        # Where a plan decides the ids, it also decides the order of all attempts.
        relaunch = partial(self._launch, row) if self.choose_id is None else None
        return AttemptJob(row, folder, run, self.lab, self.base_seed, self.observer, relaunch)

    def _make_until_decided(self, stopping: Stopping) -> None:
        """Make the attempts up to each look, and look. Attempts after a look are not launched before it."""
        runs = self.runs.values()
        for blocks in stopping.looks:
            rows = self.rows[: 2 * blocks]
            self._make(remaining_rows(runs, rows, self.again))
            if remaining_rows(runs, rows):
                return  # a budget is spent or a model is unavailable: the look is taken when the run is resumed
            decided = stopping.decide(record for run in runs for record in run.finals())
            if decided is not None:
                for run in runs:
                    if run.writable:
                        run.record_decision(decided)
                return

    def close_abandoned(self) -> None:
        """Write a record for every attempt whose process died (after a crash, before a run is resumed)."""
        rows = {row.key: row for row in self.rows}
        for variant, run in self.runs.items():
            for folder in run.unfinished():
                row = rows.get((folder.task_id, variant, folder.repeat))
                if row is not None:
                    run.adopt(folder, close_abandoned(row, self.lab, folder, base_seed=self.base_seed))

    def is_complete(self, run: RunDirectory) -> bool:
        """Return whether every attempt of a run has its result, although the study was interrupted."""
        if self.again is not None or self.stopping is not None:
            return False
        rows = [row for row in self.rows if self.runs[row.configuration.variant] is run]
        return not remaining_rows([run], rows)

    def result(self) -> StudyResult:
        return StudyResult(tuple(run.path for run in self.runs.values()))


def _cause(record: AttemptRecord) -> InvalidCause | None:
    """Return why an attempt has no result; None if it has one, which can also be a judge's or an operator's decision."""
    if judged_only(record.run_status, record.result.failure_reason, record.attribution):
        return None
    decided = record.invalid_cause is InvalidCause.SAFETY or record.termination.code is TerminationCode.OPERATOR_ABORT
    return None if decided else record.invalid_cause


def is_repeatable(record: AttemptRecord) -> bool:
    """Return whether resuming the run repeats the attempt: it was cut off, or its model was unavailable."""
    return record.termination.code in REPEATED_ON_RESUME


def remaining_rows(
    runs: Iterable[RunDirectory], rows: Sequence[PlanRow], again: Again | None = None
) -> list[tuple[PlanRow, str | None]]:
    """Select the rows without a final record, and those to make again with the attempt that they supersede."""
    repeats = again or is_repeatable
    finished: set[tuple[str, str, int]] = set()
    superseded: dict[tuple[str, str, int], str] = {}
    for record in (record for run in runs for record in run.finals()):
        if repeats(record):
            superseded[record.key] = record.attempt_id
        else:
            finished.add(record.key)
    return [(row, superseded.get(row.key)) for row in rows if row.key not in finished]
