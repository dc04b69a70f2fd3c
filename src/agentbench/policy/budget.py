"""Budgets: what an attempt has used so far, and the first cap it reached."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from agentbench.core.dataclass import dataclass
from agentbench.core.execution_price import ExecutionPrice
from agentbench.core.reasons import TerminationCode
from agentbench.policy.prices import money
from agentbench.trace.events import LlmResponse, Payload, TestsFinished, ToolCallFinished, ToolCallStarted


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps of one attempt; None means no cap."""

    tool_calls: int | None = None
    tokens: int | None = None
    cost_micro_usd: int | None = None
    failed_cycles: int | None = None
    steps_are_calls: bool = False
    """The cap on tool calls comes from the agent's `max_steps`, which has a termination code of its own."""
    exec_call_micro: int = 0
    exec_hour_micro: int = 0
    """Price of a tool call and of an hour of execution. Both count against the cost cap."""


@dataclass(frozen=True, slots=True)
class CostCap:
    """The whole cost cap and its reserve, for messages. A budget holds what the agent may spend of it."""

    micro: int
    reserve_micro: int = 0
    unit: str = "usd"

    def describe(self, used_micro: int) -> str:
        reserved = f", {money(self.reserve_micro)} reserved for acceptance" if self.reserve_micro else ""
        return f"cost cap: {money(used_micro)} of {money(self.micro)} {self.unit} used{reserved}"


@dataclass(frozen=True, slots=True)
class Spent:
    """Totals as shown by the log."""

    tool_calls: int = 0
    tokens: int = 0
    cost_micro_usd: int = 0
    failed_cycles: int = 0
    finished_calls: int = 0
    tool_us: int = 0

    def exec_micro(self, budget: Budget) -> int:
        """Return the cost of execution so far."""
        return ExecutionPrice(budget.exec_call_micro, budget.exec_hour_micro).cost(self.finished_calls, self.tool_us)

    def cost_micro(self, budget: Budget) -> int:
        """Return the cost of models and execution, which the cost cap limits."""
        return self.cost_micro_usd + self.exec_micro(budget)

    def add(self, payload: Payload) -> Spent:
        """Return totals including one more event."""
        match payload:
            case ToolCallStarted():
                return replace(self, tool_calls=self.tool_calls + 1)
            case ToolCallFinished():
                return replace(self, finished_calls=self.finished_calls + 1, tool_us=self.tool_us + payload.duration_us)
            case LlmResponse():
                return replace(
                    self,
                    tokens=self.tokens + payload.prompt_tokens + payload.completion_tokens,
                    cost_micro_usd=self.cost_micro_usd + payload.cost_micro_usd,
                )
            case TestsFinished() if payload.outcome != "pass":
                return replace(self, failed_cycles=self.failed_cycles + 1)
            case _:
                return self


@dataclass(frozen=True, slots=True)
class ReachedCap:
    """A cap that was reached."""

    code: TerminationCode
    rationale: str


def reached_cap(
    spent: Spent, budget: Budget, skip: Container[str] = (), cost_cap: CostCap | None = None
) -> ReachedCap | None:
    """Return the first cap that is used up, in a fixed order, or None. Caps with a code in `skip` do not apply.

    The message about the cost states `cost_cap`, or the budget's cap if it is None.
    """
    calls = TerminationCode.MAX_STEPS if budget.steps_are_calls else TerminationCode.TOOL_CALL_CAP
    cost, cap = spent.cost_micro(budget), budget.cost_micro_usd
    if cap is not None and cost >= cap and TerminationCode.COST_CAP not in skip:
        return ReachedCap(TerminationCode.COST_CAP, (cost_cap or CostCap(cap)).describe(cost))
    caps = (
        (TerminationCode.TOKEN_CAP, spent.tokens, budget.tokens, "tokens"),
        (calls, spent.tool_calls, budget.tool_calls, "tool calls"),
        (TerminationCode.FAILED_CYCLE_CAP, spent.failed_cycles, budget.failed_cycles, "failed test runs"),
    )
    for code, used, cap, name in caps:
        if cap is not None and used >= cap and code not in skip:
            return ReachedCap(code, f"{used} of {cap} {name} used")
    return None
