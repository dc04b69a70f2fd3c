"""Charge the cost of tool calls while they run, so that caps cover models and execution together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from agentbench.models.ledger import Account, Amount
from agentbench.policy.budget import Budget
from agentbench.policy.prices import MICRO, Prices
from agentbench.record.schema import Cost
from agentbench.trace.events import LlmRequest, LlmResponse, Payload, ToolCallFinished, ToolCallStarted

HOUR = 3600.0


def priced(budget: Budget, prices: Prices) -> Budget:
    """Add the prices of execution to a budget, so that the cost can be recomputed from the log."""
    fixed = prices.tool_call(0.0)
    return replace(budget, exec_call_micro=fixed, exec_hour_micro=prices.tool_call(HOUR) - fixed)


class Meter:
    """Listens to the log of one attempt and charges execution to its account.

    A running call is charged in part with every other event: an agent that is a program is one single call, and its requests
    to the model must see what it has cost so far.
    """

    def __init__(self, account: Account, prices: Prices, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._started: float | None = None
        self._finished_sec = 0.0
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
                    self._finished_sec += payload.duration_us / 1_000_000
                case LlmRequest() | LlmResponse() if self._started is not None:
                    pass
                case _:
                    return
            fixed = self._prices.tool_call(0.0)
            cost = self._calls * fixed + self._prices.tool_call(self._finished_sec + running) - fixed
            self._charge(cost)

    def settle(self, cost: Cost) -> None:
        """Charge grading, setup and storage, so that the account matches the record."""
        with self._lock:
            self._charge(round(cost.exec * MICRO))
        self._account.charge("overhead", Amount(round(cost.overhead * MICRO)))

    def _charge(self, cost: int) -> None:
        if cost > self.booked:
            self._account.charge("exec", Amount(cost - self.booked))
            self.booked = cost
