from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.reasons import TerminationCode
from agentbench.models.faults import BudgetReached
from agentbench.models.ledger import Amount, Caps, Ledger

pytestmark = pytest.mark.component


@pytest.mark.req("M-05", "M-07a")
def test_cap_counts_requests_in_flight_and_keeps_headroom() -> None:
    account = Ledger().attempt("t", Caps(micro=1_000_000))
    account.reserve(20_000)
    limit = 980_000
    held = account.admit(Amount(limit - 1))
    second = account.admit(Amount(1))
    with pytest.raises(BudgetReached, match="in flight") as caught:
        account.admit(Amount(1), max_wait_sec=0)
    assert (caught.value.code, caught.value.scope) == (TerminationCode.COST_CAP, "attempt")
    held.settle(Amount(10))
    second.release()
    second.settle(Amount(500))
    account.admit(Amount(1)).release()
    assert account.statement().spent == Amount(10)
    account.charge("exec", Amount(limit - 10))
    with pytest.raises(BudgetReached):
        account.admit(Amount(1))


@pytest.mark.req("M-05")
def test_request_waits_while_only_estimates_exceed_the_cap() -> None:
    account = Ledger().attempt("t", Caps(micro=1000))
    first = account.admit(Amount(5000))
    passed: list[bool] = []

    def ask() -> None:
        try:
            account.admit(Amount(1)).release()
            passed.append(True)
        except BudgetReached:
            passed.append(False)

    for cost, expected in ((10, True), (990, False)):
        waiting = threading.Thread(target=ask)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        first.settle(Amount(cost))
        waiting.join(60)
        assert passed.pop() is expected
        if expected:
            first = account.admit(Amount(5000))
    with pytest.raises(BudgetReached):
        account.admit(Amount(1), cancelled=lambda: True)


@pytest.mark.req("M-05", "M-07a")
@pytest.mark.parametrize("scope", ["attempt", "task", "run"])
def test_smallest_budget_applies_and_is_named(scope: str) -> None:
    cap = Caps(micro=100)
    ledger = Ledger(cap if scope == "run" else None)
    first = ledger.attempt("t", cap if scope == "attempt" else None, task_caps=cap if scope == "task" else None)
    first.admit(Amount(5)).settle(Amount(100))
    with pytest.raises(BudgetReached) as caught:
        first.admit(Amount(1))
    assert caught.value.scope == scope
    other = ledger.attempt("t")
    if scope == "attempt":
        other.admit(Amount(1))
    else:
        with pytest.raises(BudgetReached):
            other.admit(Amount(1))
    another_task = ledger.attempt("u")
    if scope == "run":
        with pytest.raises(BudgetReached):
            another_task.admit(Amount(1))
    else:
        another_task.admit(Amount(1))


def test_tokens_are_capped() -> None:
    account = Ledger().attempt("t", Caps(tokens=10))
    account.admit(Amount(0, 9))
    account.admit(Amount(0, 9))
    with pytest.raises(BudgetReached) as caught:
        account.admit(Amount(), max_wait_sec=0)
    assert caught.value.code is TerminationCode.TOKEN_CAP


@pytest.mark.req("M-06a")
def test_cost_is_itemised() -> None:
    ledger = Ledger()
    account = ledger.attempt("t")
    account.admit(Amount(7)).settle(Amount(5))
    account.charge("exec", Amount(3))
    account.charge("human", Amount(2))
    account.charge("overhead", Amount(1))
    for scope in (account, ledger.task("t"), ledger.run):
        assert dict(scope.statement().parts) == {"lm": 5, "exec": 3, "human": 2, "overhead": 1}
        assert scope.statement().spent.micro == 11


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 100)), max_size=40), st.integers(1, 2000))
@pytest.mark.req("M-05")
def test_at_most_one_request_exceeds_a_cap(requests: list[tuple[int, int]], cap: int) -> None:
    """While estimates are not too low, only the last admitted request can exceed the cap."""
    account = Ledger(Caps(micro=cap)).attempt("t")
    largest = max((cost for cost, _ in requests), default=0)
    holds = []
    for cost, slack in requests:
        try:
            holds.append((account.admit(Amount(cost + slack), max_wait_sec=0), cost))
        except BudgetReached:
            break
    for hold, cost in holds:
        hold.settle(Amount(cost))
    assert account.statement().held == Amount()
    assert account.statement().spent.micro <= cap + largest


@pytest.mark.req("M-05")
def test_many_workers_share_one_total_cap() -> None:
    ledger = Ledger(Caps(micro=10_000))
    admitted: list[int] = []

    def work() -> None:
        account = ledger.attempt("t")
        for _ in range(200):
            try:
                hold = account.admit(Amount(50))
            except BudgetReached:
                return
            hold.settle(Amount(50))
            admitted.append(50)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == ledger.run.statement().spent.micro
    assert 10_000 <= sum(admitted) <= 10_050, "every worker stops, and none before it must"


@pytest.mark.req("M-07b")
def test_reserve_of_running_attempts_counts_in_shared_caps() -> None:
    ledger = Ledger(Caps(micro=100))
    first, second = ledger.attempt("a"), ledger.attempt("b")
    first.reserve(60)
    second.charge("exec", Amount(40))
    with pytest.raises(BudgetReached, match=r"the run's total budget .* is spent: .* 0\.00006 reserved for acceptance"):
        second.admit(Amount(1))
    first.charge("exec", Amount(10))
    first.reserve(0)
    second.admit(Amount(1)).release()
    assert ledger.run.statement().reserved == 0
