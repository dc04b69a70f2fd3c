"""Charge the cost of tool calls while they run, so that caps cover models and execution together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from agentbench.acceptance.decoys.assignments import FEW_TESTS, RUNS, RUNS_WITH_FEW_TESTS
from agentbench.acceptance.validation import Baseline
from agentbench.contract.load import LoadedTask
from agentbench.contract.schema import Check
from agentbench.models.ledger import Account, Amount
from agentbench.policy.budget import Budget
from agentbench.policy.costs import Rates
from agentbench.policy.headroom import Headroom
from agentbench.policy.prices import MICRO
from agentbench.policy.thresholds import Thresholds
from agentbench.record.schema import Cost
from agentbench.trace.events import LlmRequest, LlmResponse, Payload, ToolCallFinished, ToolCallStarted


def priced(budget: Budget, rates: Rates) -> Budget:
    """Add the prices of execution to a budget, so that the cost can be recomputed from the log."""
    return replace(budget, exec_call_micro=rates.exec_call_micro, exec_hour_micro=rates.exec_hour_micro)


def expected_headroom(task: LoadedTask, baseline: Baseline | None, thresholds: Thresholds) -> Headroom:
    """Expect that each check takes as long as on the base repository, and other commands as long as the mean check."""
    measured = {} if baseline is None else baseline.check_us
    mean = sum(measured.values()) // len(measured) if measured else 0
    runs = {check.id: _expected_runs(task, check) for check in task.checks}
    oracle = task.task.oracle
    steps = (oracle.build != "none") + (0 if oracle.static == "none" else len(oracle.static))
    return Headroom(
        executions=sum(runs.values()) + steps,
        execution_us=sum(count * measured.get(name, mean) for name, count in runs.items()) + steps * mean,
        evidence_bytes=thresholds.headroom_evidence_kb * 1000,
        margin_percent=thresholds.headroom_margin_percent,
    )


def _expected_runs(task: LoadedTask, check: Check) -> int:
    """Return how often acceptance runs a check at most: reruns, and decoy runs if the task has a reference."""
    runs = 1
    if check.parser == "pytest" and check.kind != "probe" and task.reference_file is not None:
        runs = RUNS if len(check.fail_to_pass) > FEW_TESTS else RUNS_WITH_FEW_TESTS
    return (1 + check.reruns) * runs


class Meter:
    """Listens to the log of one attempt and charges execution to its account.

    A running call is charged in part with every other event: an agent that is a program is one single call, and its requests
    to the model must see what it has cost so far.
    """

    def __init__(self, account: Account, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._price = rates.execution
        self._clock = clock
        self._lock = threading.Lock()
        self._started: float | None = None
        self._finished_us = 0
        self._calls = 0
        self.booked = 0
        """Cost of execution so far, in micro-units."""

    def __call__(self, payload: Payload) -> None:
        with self._lock:
            running = 0.0 if self._started is None else self._clock() - self._started
            match payload:
                case ToolCallStarted():
                    self._started = self._clock()
                    self._calls += 1
                    running = 0.0
                case ToolCallFinished():
                    self._started, running = None, 0.0
                    self._finished_us += payload.duration_us
                case LlmRequest() | LlmResponse() if self._started is not None:
                    pass
                case _:
                    return
            self._charge(self._price.cost(self._calls, self._finished_us + int(running * 1_000_000)))

    def settle(self, cost: Cost) -> None:
        """Charge grading, setup, people and storage instead of the reserve, so that the account matches the record."""
        with self._lock:
            self._charge(round(cost.exec * MICRO))
        self._account.charge("human", Amount(round(cost.human * MICRO)))
        self._account.charge("overhead", Amount(round(cost.overhead * MICRO)))
        self._account.reserve(0)

    def _charge(self, cost: int) -> None:
        if cost > self.booked:
            self._account.charge("exec", Amount(cost - self.booked))
            self.booked = cost
