"""Threads that carry jobs out: in order, as many as asked for, and none lost when one stands aside or fails."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from agentbench.run.executor import LocalThreads


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
    executor.carry_out(partial(floor.job, number) for number in range(40))
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
        with executor.standing_aside():
            assert answered.wait(20)
        floor.job(100)

    def last() -> None:
        floor.job(9)
        answered.set()

    executor.carry_out([waiting, *(partial(floor.job, number) for number in range(5)), last, partial(floor.job, 10)])
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
        executor.carry_out([fails, *(partial(floor.job, number) for number in range(500))])
    executor.join()
    assert len(floor.done) < 500
