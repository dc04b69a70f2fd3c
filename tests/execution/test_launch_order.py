"""Attempts are registered when an executor takes them, in the order of the plan, whichever worker is faster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from agentbench.cli.progress import Progress
from agentbench.contract.suite import load_suite
from agentbench.core.ids import make_ulid
from agentbench.execution.config import CliChoices
from agentbench.execution.job import AttemptJob, Observer
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.execution.request import RunRequest, plan_attempts
from agentbench.execution.study import Study
from agentbench.record.run_directory import RunDirectory
from agentbench.trace.events import AttemptBegun
from agentbench.trace.log import read_events
from tests.execution.tasks import make_suite

pytestmark = pytest.mark.component


class StalledWorkers:
    """An executor whose workers never come to their jobs."""

    def require(self, lab: Lab, rows: Sequence[PlanRow], observer: Observer) -> None:
        pass

    def close(self) -> None:
        pass

    def run(self, jobs: Iterable[AttemptJob]) -> None:
        self.taken = list(jobs)

    def join(self) -> None:
        pass

    def yield_worker(self) -> AbstractContextManager[None]:
        return nullcontext()


def test_taking_a_job_registers_its_attempt(tmp_path: Path) -> None:
    tasks = load_suite("tiny", make_suite(tmp_path / "tasks", "one", "two", "three")).tasks
    request = RunRequest(
        suite="tiny", tasks_dir="", task_paths=(), variants=(), choices=CliChoices(agent="noop"), repeats=2, seed=1
    )
    rows = plan_attempts(tasks, request)
    executor = StalledWorkers()
    run = RunDirectory.create(tmp_path, suite="tiny", variant="noop", model=None, meta={})
    numbers = iter(range(1, 100))
    with Lab(sandbox="bwrap", state=tmp_path / "state") as lab, run:
        study = Study(rows, lab, {rows[0].configuration.variant: run}, 1, executor, Progress(quiet=True))
        study.choose_id = lambda _: make_ulid(next(numbers), bytes(10))
        study.execute()
    events = [event.payload for event in read_events(run.path / "events.jsonl", types={AttemptBegun.type})]
    begun = [event for event in events if isinstance(event, AttemptBegun)]
    assert [(event.task_id, event.repeat) for event in begun] == [(row.task.id, row.repeat) for row in rows]
    assert [event.attempt_id for event in begun] == [make_ulid(number, bytes(10)) for number in range(1, 7)]
    assert [job.folder.attempt_id for job in executor.taken] == [event.attempt_id for event in begun]
