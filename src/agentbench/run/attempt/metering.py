"""Execution on the account: what tool calls cost is booked while they run, so that caps hold over models and execution together."""

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
    """The budget of an attempt with the prices of execution in it, so that a fold over the log finds the same cost."""
    fixed = prices.tool_call(0.0)
    return replace(budget, exec_call_micro=fixed, exec_hour_micro=prices.tool_call(HOUR) - fixed)


class Meter:
    """Listens to the log of one attempt and books execution on its account.

    A call that runs long is booked on the way, whenever something else is heard: a program that is the agent is one single call,
    and its requests to a model must find what it has cost until then.
    """

    def __init__(self, account: Account, prices: Prices, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._done_sec = 0.0
        self._calls = 0
        self.booked = 0
        """Micro-units of execution so far."""

    def __call__(self, payload: Payload) -> None:
        with self._lock:
            running = 0.0 if self._began is None else self._clock() - self._began
            match payload:
                case ToolCallStarted():
                    self._began = self._clock()
                    self._calls += 1
                    running = 0.0
                case ToolCallFinished():
                    self._began, running = None, 0.0
                    self._done_sec += payload.duration_us / 1_000_000
                case LlmRequest() | LlmResponse() if self._began is not None:
                    pass
                case _:
                    return
            fixed = self._prices.tool_call(0.0)
            cost = self._calls * fixed + self._prices.tool_call(self._done_sec + running) - fixed
            self._book(cost)

    def settle(self, cost: Cost) -> None:
        """Book what came after the agent: acceptance, setup, what is kept. Then the account holds what the record says."""
        with self._lock:
            self._book(round(cost.exec * MICRO))
        self._account.charge("overhead", Amount(round(cost.overhead * MICRO)))

    def _book(self, cost: int) -> None:
        if cost > self.booked:
            self._account.charge("exec", Amount(cost - self.booked))
            self.booked = cost
