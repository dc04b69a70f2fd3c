"""The cost of an attempt by component and by phase, as a function of its log and of the prices in its manifest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from agentbench.core.dataclass import dataclass
from agentbench.core.execution_price import HOUR_US, ExecutionPrice
from agentbench.policy.prices import Prices, money
from agentbench.trace.events import (
    AcceptanceCheck,
    Briefing,
    EventLike,
    JudgeResult,
    LlmResponse,
    MonitorAlert,
    OperatorDecision,
    PatchExtracted,
    Payload,
    ResourceSample,
    SetupCommandFinished,
    StepFinished,
    Termination,
    TestsFinished,
    ToolCallFinished,
    ToolCallStarted,
)

GIGABYTE = 10**9
HOUR_SEC = 3600.0
EVIDENCE = "evidence"
"""Phase of the resource sample that holds the size of the stored evidence."""
BUDGET = "budget"
OVERRUN = "overrun"
"""Monitor and rule of the alert that reports a cost above the cap."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices in micro-units, as the manifest records them."""

    exec_call_micro: int = 0
    exec_hour_micro: int = 0
    gigabyte_micro: int = 0
    """Price of storing a gigabyte of evidence."""
    review_hour_micro: int = 0
    """Price of an hour of a person's time."""

    @classmethod
    def of(cls, prices: Prices) -> Rates:
        call = prices.tool_call(0.0)
        return cls(
            exec_call_micro=call,
            exec_hour_micro=prices.tool_call(HOUR_SEC) - call,
            gigabyte_micro=prices.storage(GIGABYTE),
            review_hour_micro=prices.review(HOUR_SEC),
        )

    @property
    def execution(self) -> ExecutionPrice:
        return ExecutionPrice(self.exec_call_micro, self.exec_hour_micro)

    def storage(self, size: int) -> int:
        return -(-size * self.gigabyte_micro // GIGABYTE)

    def review(self, duration_us: int) -> int:
        return -(-duration_us * self.review_hour_micro // HOUR_US)


@dataclass(frozen=True, slots=True)
class Executions:
    """Commands that ran, and the time they took together."""

    count: int = 0
    duration_us: int = 0

    @classmethod
    def of(cls, durations_us: Iterable[int]) -> Executions:
        durations = list(durations_us)
        return cls(len(durations), sum(durations))


@dataclass(frozen=True, slots=True)
class Metered:
    """Metered quantities of an attempt."""

    setup: Executions = Executions()
    """Setup commands that ran for this attempt; none if the prepared environment was in the cache."""
    tools: Executions = Executions()
    acceptance: Executions = Executions()
    """Builds, static commands and runs of checks."""
    lm_micro: int = 0
    """Cost of the agent's model requests, priced when they were made."""
    judge_micro: int = 0
    review_us: int = 0
    """Time that the attempt waited for decisions of a person."""
    evidence_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost in micro-units."""

    setup: int = 0
    lm: int = 0
    tools: int = 0
    acceptance: int = 0
    human: int = 0
    overhead: int = 0
    judge: int = 0
    """Cost of the judge: part of the total, never of the agent's budget."""

    @property
    def exec(self) -> int:
        return self.setup + self.tools + self.acceptance

    @property
    def total(self) -> int:
        return self.lm + self.exec + self.human + self.overhead + self.judge

    @property
    def capped(self) -> int:
        """Return the part of the total that the cost cap is meant to cover."""
        return self.total - self.judge

    @property
    def phases(self) -> dict[str, int]:
        """Return the total by phase."""
        return {
            "setup": self.setup,
            "agent": self.lm + self.tools,
            "review": self.human,
            "acceptance": self.acceptance,
            "judge": self.judge,
            "storage": self.overhead,
        }


def itemise(metered: Metered, rates: Rates) -> Costs:
    """Return the cost of metered quantities."""
    price = rates.execution
    return Costs(
        setup=price.cost(metered.setup.count, metered.setup.duration_us),
        lm=metered.lm_micro,
        tools=price.cost(metered.tools.count, metered.tools.duration_us),
        acceptance=price.cost(metered.acceptance.count, metered.acceptance.duration_us),
        human=rates.review(metered.review_us),
        overhead=rates.storage(metered.evidence_bytes),
        judge=metered.judge_micro,
    )


def meter(events: Iterable[EventLike]) -> Metered:
    """Read the metered quantities of an attempt from its log."""
    log = [event.payload for event in events]
    calls = sum(isinstance(payload, ToolCallStarted) for payload in log)
    evidence = [
        payload.disk_bytes for payload in log if isinstance(payload, ResourceSample) and payload.phase == EVIDENCE
    ]
    return Metered(
        setup=Executions.of(
            payload.duration_us for payload in log if isinstance(payload, SetupCommandFinished) and not payload.cached
        ),
        tools=Executions(calls, sum(payload.duration_us for payload in log if isinstance(payload, ToolCallFinished))),
        acceptance=Executions.of(_acceptance(log)),
        lm_micro=sum(payload.cost_micro_usd for payload in log if isinstance(payload, LlmResponse)),
        judge_micro=sum(
            exchange.response.cost_micro_usd
            for payload in log
            if isinstance(payload, JudgeResult)
            for exchange in payload.exchanges
            if exchange.response is not None
        ),
        review_us=sum(payload.waited_us for payload in log if isinstance(payload, OperatorDecision)),
        evidence_bytes=(evidence[-1] or 0) if evidence else 0,
    )


def _acceptance(log: Iterable[Payload]) -> list[int]:
    """Return the durations of all commands of acceptance. Test runs of the agent are tool calls."""
    commands: list[int] = []
    check_runs: dict[str, int] = {}
    agent_active = False
    for payload in log:
        if isinstance(payload, Briefing):
            agent_active = True
        elif isinstance(payload, Termination | PatchExtracted):
            agent_active = False
        elif isinstance(payload, StepFinished) and _ran(payload) and not agent_active:
            if isinstance(payload, TestsFinished):
                check_runs[payload.step] = payload.duration_us
            else:
                commands.append(payload.duration_us)
    # A check that was decided over several runs logs each of them, and then itself.
    several = {name.partition("~")[0] for name in check_runs if "~" in name}
    return commands + [duration for name, duration in check_runs.items() if name not in several]


def _ran(step: StepFinished) -> bool:
    """Return whether a command ran; a step without a declared command finishes at once."""
    return step.duration_us > 0 or step.exit_code is not None


def is_overrun(payload: Payload) -> TypeGuard[MonitorAlert]:
    return isinstance(payload, MonitorAlert) and (payload.monitor, payload.rule) == (BUDGET, OVERRUN)


def overrun_alert(events: Iterable[EventLike], costs: Costs, cap_micro: int | None, unit: str) -> MonitorAlert | None:
    """Return the alert that reports a cost above the cap, or None. It changes no verdict."""
    if cap_micro is None or costs.capped <= cap_micro:
        return None
    evidence = [event.seq for event in events if _proves_cost(event.payload)]
    spent = {phase: micro for phase, micro in costs.phases.items() if phase != "judge"}
    return MonitorAlert(
        monitor=BUDGET,
        severity="note",
        rule=OVERRUN,
        detail=f"cost {money(costs.capped)} {unit}, cap {money(cap_micro)} {unit}",
        evidence=evidence,
        signals={"cap": cap_micro, "total": costs.capped, **spent},
    )


def _proves_cost(payload: Payload) -> bool:
    return isinstance(payload, AcceptanceCheck) or (isinstance(payload, ResourceSample) and payload.phase == EVIDENCE)
