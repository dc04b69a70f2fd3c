"""Budgets as folds: what an attempt has used so far, and the first cap it reached."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentbench.core.reasons import TerminationCode
from agentbench.trace.events import LlmResponse, Payload, TestsFinished, ToolCallStarted


@dataclass(frozen=True, slots=True)
class Budget:
    """Caps of one attempt; None where none is set. Origins are the caller's to record."""

    tool_calls: int | None = None
    tokens: int | None = None
    cost_micro_usd: int | None = None
    failed_cycles: int | None = None
    steps_are_calls: bool = False
    """The cap on tool calls is the agent's own `max_steps`, not the budget's: it ends the run under another code."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What the log shows as used."""

    tool_calls: int = 0
    tokens: int = 0
    cost_micro_usd: int = 0
    failed_cycles: int = 0

    def after(self, payload: Payload) -> Spent:
        """This much, and one event more."""
        match payload:
            case ToolCallStarted():
                return replace(self, tool_calls=self.tool_calls + 1)
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
class Reached:
    """A cap that was reached."""

    code: TerminationCode
    rationale: str


def reached(spent: Spent, budget: Budget) -> Reached | None:
    """The first cap with nothing left, in a fixed order; None while something is left of every one."""
    calls = TerminationCode.MAX_STEPS if budget.steps_are_calls else TerminationCode.TOOL_CALL_CAP
    caps = (
        (TerminationCode.COST_CAP, spent.cost_micro_usd, budget.cost_micro_usd, "cost (micro-USD)"),
        (TerminationCode.TOKEN_CAP, spent.tokens, budget.tokens, "tokens"),
        (calls, spent.tool_calls, budget.tool_calls, "tool calls"),
        (TerminationCode.FAILED_CYCLE_CAP, spent.failed_cycles, budget.failed_cycles, "failed check cycles"),
    )
    for code, used, cap, name in caps:
        if cap is not None and used >= cap:
            return Reached(code, f"{used} of {cap} {name} used")
    return None
