"""The cost of an attempt by component: models, execution, people, overhead, and the judge."""

from __future__ import annotations

from dataclasses import dataclass

from agentbench.policy.prices import Prices

US = 1_000_000


@dataclass(frozen=True, slots=True)
class Metered:
    """Metered quantities. Times are in microseconds."""

    lm_micro: int = 0
    """Cost of model requests, priced when they were made."""
    tool_calls: int = 0
    tool_us: int = 0
    steps: int = 0
    """Number of setup commands that ran, builds, static commands and checks."""
    step_us: int = 0
    evidence_bytes: int = 0
    judge_micro: int = 0
    """Cost of the judge, which is not part of the agent's cost."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost per component in micro-units."""

    lm: int = 0
    exec: int = 0
    human: int = 0
    overhead: int = 0
    judge: int = 0

    @property
    def total(self) -> int:
        return self.lm + self.exec + self.human + self.overhead + self.judge


def itemise(metered: Metered, prices: Prices) -> Costs:
    """Return the cost per component. Adjudication adds the cost of people's time."""
    return Costs(
        lm=metered.lm_micro,
        exec=_execution(metered.tool_calls, metered.tool_us, prices)
        + _execution(metered.steps, metered.step_us, prices),
        overhead=prices.storage(metered.evidence_bytes, 0),
        judge=metered.judge_micro,
    )


def _execution(count: int, total_us: int, prices: Prices) -> int:
    """Price `count` executions: a fixed price each, plus their total time."""
    fixed = prices.tool_call(0.0)
    return count * fixed + prices.tool_call(total_us / US) - fixed
