"""What an attempt cost, item by item: models, execution, people, everything else (M-06), and the judge beside them."""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.policy.prices import Prices

US = 1_000_000


@dataclass(frozen=True, slots=True)
class Metered:
    """What was counted. Times are microseconds."""

    lm_micro: int = 0
    """Model requests were priced when they were made."""
    tool_calls: int = 0
    tool_us: int = 0
    steps: int = 0
    """Setup commands that really ran, builds, static commands and checks."""
    step_us: int = 0
    evidence_bytes: int = 0
    judge_micro: int = 0
    """What its judge used: no part of what the agent did."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Micro-units per component."""

    lm: int = 0
    exec: int = 0
    human: int = 0
    overhead: int = 0
    judge: int = 0

    @property
    def total(self) -> int:
        return self.lm + self.exec + self.human + self.overhead + self.judge


def itemise(metered: Metered, prices: Prices) -> Costs:
    """The same whoever computes it from the log. People's time is added where it is metered: at adjudication."""
    return Costs(
        lm=metered.lm_micro,
        exec=_work(metered.tool_calls, metered.tool_us, prices) + _work(metered.steps, metered.step_us, prices),
        overhead=prices.storage(metered.evidence_bytes, 0),
        judge=metered.judge_micro,
    )


def _work(times: int, took_us: int, prices: Prices) -> int:
    """So many pieces of work that took so long together: each costs its fixed part, their time is priced once."""
    fixed = prices.tool_call(0.0)
    return times * fixed + prices.tool_call(took_us / US) - fixed
