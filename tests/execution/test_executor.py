"""Executors run all jobs in order within the worker limit, and lose none when one waits or fails."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from agentbench.execution.executor import LocalThreads
from tests.execution.conftest import Ab
from tests.execution.tasks import make_suite

pytestmark = pytest.mark.component


class JobCounter:
    """Counts running and finished jobs."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0
        self.done: list[int] = []

    def job(self, number: int) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        threading.Event().wait(0.002)
        with self.lock:
            self.now -= 1
            self.done.append(number)


@pytest.mark.req("R-14a")
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_job_runs_once_within_the_worker_limit(workers: int) -> None:
    counter = JobCounter()
    executor = LocalThreads(workers)
    executor.run(partial(counter.job, number) for number in range(40))
    executor.join()
    assert sorted(counter.done) == list(range(40))
    assert counter.most <= workers
    if workers == 1:
        assert counter.done == list(range(40))


@pytest.mark.req("R-14a", "M-04")
def test_waiting_job_yields_its_worker() -> None:
    counter = JobCounter()
    executor = LocalThreads(1)
    answered = threading.Event()

    def waiting() -> None:
        with executor.yield_worker():
            assert answered.wait(60)
        counter.job(100)

    def last() -> None:
        counter.job(9)
        answered.set()

    executor.run([waiting, *(partial(counter.job, number) for number in range(5)), last, partial(counter.job, 10)])
    executor.join()
    assert sorted(counter.done) == [0, 1, 2, 3, 4, 9, 10, 100]
    assert counter.done.index(9) < counter.done.index(100)


@pytest.mark.req("R-14a")
def test_failing_job_stops_the_rest_and_is_raised() -> None:
    counter = JobCounter()
    executor = LocalThreads(2)

    def fails() -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        executor.run([fails, *(partial(counter.job, number) for number in range(500))])
    executor.join()
    assert len(counter.done) < 500


@pytest.mark.req("R-14a")
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_unknown_executor_lists_available_ones(ab: Ab, tmp_path: Path, more: tuple[str, ...]) -> None:
    make_suite(tmp_path / "tasks", "one")
    ran = ab("run", "--suite", "tiny", "--agent", "noop", "--executor", "slurm", *more)
    assert ran.code == 2
    assert "unknown executor 'slurm'" in ran.stderr
    assert "available executors: local, ray" in ran.stderr
    assert not (tmp_path / "artifacts").exists()
