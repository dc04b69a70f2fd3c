"""Executors run all jobs in order within the worker limit, and lose none when one waits or fails."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from agentbench.cli.launch import run_rows
from agentbench.contract.load import load_task
from agentbench.core.errors import InputError
from agentbench.record.audit import verify_run
from agentbench.run.config import CliChoices
from agentbench.run.executor import EXECUTORS, LocalThreads
from agentbench.run.job import AttemptJob
from agentbench.run.request import RunRequest, plan_attempts
from tests.run.conftest import Ab
from tests.run.tasks import make_suite

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


class ProcessPerAttempt:
    """Runs every attempt in its own process, which gets only pickled bytes, like an executor on other machines would."""

    in_process = False

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, jobs: Iterable[AttemptJob]) -> None:
        context = multiprocessing.get_context("spawn")
        started = [(job, job.begin()) for job in jobs]
        processes = [context.Process(target=_run_pickled, args=(pickle.dumps(remote),)) for _, remote in started]
        for process in processes:
            process.start()
        for process, (job, remote) in zip(processes, started, strict=True):
            process.join()
            assert process.exitcode == 0
            job.adopt(remote)

    def join(self) -> None:
        pass

    def yield_worker(self) -> AbstractContextManager[None]:
        return nullcontext()


def _run_pickled(data: bytes) -> None:
    pickle.loads(data).run()  # noqa: S301 - our own bytes


def _request(tmp_path: Path, total_usd: float | None = None) -> RunRequest:
    choices = CliChoices(agent="reference")
    return RunRequest("tiny", "", (), (), choices, executor="processes", out=tmp_path / "runs", total_usd=total_usd)


@pytest.mark.req("R-14a")
def test_executor_with_separate_processes_works(
    tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(shared_state))
    monkeypatch.setitem(EXECUTORS, "processes", ProcessPerAttempt)
    suite = make_suite(tmp_path, "one", "two") / "tiny"
    tasks = [load_task(suite / name) for name in ("one", "two")]
    request = _request(tmp_path)
    result = run_rows(plan_attempts(tasks, request), request, quiet=True)
    results = sorted((record.task_id, record.result.passed) for record in result.records())
    assert results == [("one", True), ("two", True)]
    (run,) = result.runs
    assert verify_run(run).ok


@pytest.mark.req("R-14a", "M-07a")
def test_shared_caps_need_an_in_process_executor(
    tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(shared_state))
    monkeypatch.setitem(EXECUTORS, "processes", ProcessPerAttempt)
    task = load_task(make_suite(tmp_path, "one") / "tiny" / "one")
    request = _request(tmp_path, 1.0)
    with pytest.raises(InputError, match="need an executor that runs attempts in this process"):
        run_rows(plan_attempts([task], request), request, quiet=True)


@pytest.mark.req("R-14a")
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_unknown_executor_lists_available_ones(ab: Ab, tmp_path: Path, more: tuple[str, ...]) -> None:
    make_suite(tmp_path / "tasks", "one")
    ran = ab("run", "--suite", "tiny", "--agent", "noop", "--executor", "ray", *more)
    assert ran.code == 2
    assert "unknown executor 'ray'" in ran.stderr
    assert "available executors: local" in ran.stderr
    assert not (tmp_path / "artifacts").exists()
