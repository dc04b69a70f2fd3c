"""A study: all attempts of a plan, on worker threads, interruptible at any moment and resumable afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentbench.core.errors import InputError
from agentbench.core.reasons import Reason
from agentbench.record.run_directory import RunDirectory
from agentbench.run.attempt.pipeline import end_abandoned
from agentbench.run.executor import Executor, LocalThreads
from agentbench.run.lab import Lab
from agentbench.run.observer import Nobody, Observer
from agentbench.run.plan import PlanRow
from agentbench.run.remote_job import AttemptJob
from agentbench.sandbox.stale_sockets import remove_stale


@dataclass(slots=True)
class Study:
    """The rows to run and where each variant's records go."""

    rows: Sequence[PlanRow]
    lab: Lab
    runs: Mapping[str, RunDirectory]
    base_seed: int
    executor: Executor = field(default_factory=lambda: LocalThreads(1))
    observer: Observer = field(default_factory=Nobody)

    def carry_out(self) -> None:
        """Run every row that has no standing record. Records are in the run directories: none is kept in memory.

        Raises:
            KeyboardInterrupt: after every attempt in flight has been recorded as interrupted.
            RecordError: a run directory cannot be written; nothing more is started.
            InputError: caps over several attempts, and an executor that shares no memory between them.
        """
        executor = self.executor
        if not executor.in_process and self.lab.models.capped:
            msg = "--task-usd and --total-usd hold over all attempts: this executor makes them in processes that share nothing"
            raise InputError(msg, remedy="use --executor local, or cap each attempt with the task's budget")
        standing = {key: found for run in self.runs.values() for key, found in _standing(run).items()}
        pending = [(row, standing.get(row.key)) for row in self.rows if standing.get(row.key) != _DONE]
        self.observer.planned(len(pending))
        self.lab.aside = executor.standing_aside
        for doors in ("gateway", "proxy"):
            remove_stale(self.lab.state / doors)
        try:
            executor.carry_out(self._job(row, old) for row, old in pending)
        except BaseException:
            # Ctrl-C, or a worker that could not write its record: what is in flight ends now, as interrupted.
            self.lab.cancel()
            raise
        finally:
            executor.join()

    def end_abandoned(self) -> None:
        """Give a record to every attempt whose process died (a resumed run has some)."""
        rows = {row.key: row for row in self.rows}
        for variant, run in self.runs.items():
            for folder in run.unfinished():
                row = rows.get((folder.task_id, variant, folder.repeat))
                if row is not None:
                    run.adopt(folder, end_abandoned(row, self.lab, folder, base_seed=self.base_seed))

    def _job(self, row: PlanRow, supersedes: str | None) -> AttemptJob:
        return AttemptJob(
            row, supersedes, self.runs[row.configuration.variant], self.lab, self.base_seed, self.observer
        )


_DONE = "done"


def _standing(run: RunDirectory) -> dict[tuple[str, str, int], str]:
    """What each key has: `_DONE`, or the id of the interrupted attempt that a new one supersedes."""
    return {
        record.key: record.attempt_id if record.result.failure_reason is Reason.INTERRUPTED else _DONE
        for record in run.finals()
    }
