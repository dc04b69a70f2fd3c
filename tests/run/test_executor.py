"""Threads that carry jobs out: in order, as many as asked for, and none lost when one stands aside or fails."""

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
from agentbench.run.executor import EXECUTORS, Job, LocalThreads
from agentbench.run.request import RunRequest, plan_attempts
from tests.run.conftest import Ab
from tests.run.tasks import make_suite


class Floor:
    """Counts who is at work."""

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


@pytest.mark.req("R-14")
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_job_is_done_once_and_no_more_at_a_time_than_there_are_workers(workers: int) -> None:
    floor = Floor()
    executor = LocalThreads(workers)
    executor.run(partial(floor.job, number) for number in range(40))
    executor.join()
    assert sorted(floor.done) == list(range(40))
    assert floor.most <= workers
    if workers == 1:
        assert floor.done == list(range(40))


@pytest.mark.req("R-14", "M-04")
def test_who_waits_for_a_person_does_not_keep_others_from_working() -> None:
    floor = Floor()
    executor = LocalThreads(1)
    answered = threading.Event()

    def waiting() -> None:
        with executor.yield_worker():
            assert answered.wait(20)
        floor.job(100)

    def last() -> None:
        floor.job(9)
        answered.set()

    executor.run([waiting, *(partial(floor.job, number) for number in range(5)), last, partial(floor.job, 10)])
    executor.join()
    assert sorted(floor.done) == [0, 1, 2, 3, 4, 9, 10, 100]
    assert floor.done.index(9) < floor.done.index(100)


@pytest.mark.req("R-14")
def test_a_job_that_fails_ends_the_rest_and_is_told() -> None:
    floor = Floor()
    executor = LocalThreads(2)

    def fails() -> None:
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        executor.run([fails, *(partial(floor.job, number) for number in range(500))])
    executor.join()
    assert len(floor.done) < 500


class ProcessPerAttempt:
    """Every attempt in a process of its own, which gets nothing but bytes: what an executor on other machines would do."""

    in_process = False

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, jobs: Iterable[Job]) -> None:
        context = multiprocessing.get_context("spawn")
        begun = [(job, job.begin()) for job in jobs]
        processes = [context.Process(target=_elsewhere, args=(pickle.dumps(remote),)) for _, remote in begun]
        for process in processes:
            process.start()
        for process, (job, remote) in zip(processes, begun, strict=True):
            process.join()
            assert process.exitcode == 0
            job.adopt(remote)

    def join(self) -> None:
        pass

    def yield_worker(self) -> AbstractContextManager[None]:
        return nullcontext()


def _elsewhere(data: bytes) -> None:
    pickle.loads(data).run()  # noqa: S301 - our own bytes


def _request(tmp_path: Path, total_usd: float | None = None) -> RunRequest:
    choices = CliChoices(agent="reference")
    return RunRequest("tiny", "", (), (), choices, executor="processes", out=tmp_path / "runs", total_usd=total_usd)


@pytest.mark.req("R-14")
def test_an_executor_whose_workers_share_nothing_needs_no_other_interface(
    tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(shared_state))
    monkeypatch.setitem(EXECUTORS, "processes", ProcessPerAttempt)
    suite = make_suite(tmp_path, "one", "two") / "tiny"
    tasks = [load_task(suite / name) for name in ("one", "two")]
    request = _request(tmp_path)
    result = run_rows(plan_attempts(tasks, request), request, quiet=True)
    assert [(record.task_id, record.result.passed) for record in result.records()] == [("one", True), ("two", True)]
    (run,) = result.runs
    assert verify_run(run).ok


@pytest.mark.req("R-14", "M-07")
def test_caps_over_several_attempts_are_refused_where_attempts_share_nothing(
    tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AB_STATE", str(shared_state))
    monkeypatch.setitem(EXECUTORS, "processes", ProcessPerAttempt)
    task = load_task(make_suite(tmp_path, "one") / "tiny" / "one")
    request = _request(tmp_path, 1.0)
    with pytest.raises(InputError, match="need an executor that runs attempts in this process"):
        run_rows(plan_attempts([task], request), request, quiet=True)


@pytest.mark.req("R-14")
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_executor_that_nobody_has_is_refused_with_the_list(ab: Ab, tmp_path: Path, more: tuple[str, ...]) -> None:
    make_suite(tmp_path / "tasks", "one")
    ran = ab("run", "--suite", "tiny", "--agent", "noop", "--executor", "ray", *more)
    assert ran.code == 2
    assert "unknown executor 'ray'" in ran.stderr
    assert "available executors: local" in ran.stderr
    assert not (tmp_path / "artifacts").exists()
