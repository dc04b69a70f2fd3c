"""The cost of an attempt as its record states it, and recomputed from its log and its manifest."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.policy.costs import Costs, Rates, is_overrun, itemise, meter, overrun_alert
from agentbench.policy.headroom import Headroom, spendable
from agentbench.policy.prices import MICRO
from agentbench.record.manifest import GradingPlan, Planned
from agentbench.record.schema import Cost, PhaseCosts
from agentbench.trace.chain import Event


def cost_record(costs: Costs, unit: str, method_id: str | None) -> Cost:
    """Return the cost as the record states it."""
    return Cost(
        lm=costs.lm / MICRO,
        exec=costs.exec / MICRO,
        human=costs.human / MICRO,
        overhead=costs.overhead / MICRO,
        judge=costs.judge / MICRO,
        total=costs.total / MICRO,
        unit=unit,
        method_id=method_id,
        phases=PhaseCosts(**{phase: micro / MICRO for phase, micro in costs.phases.items()}),
    )


def rates_from(planned: Planned) -> Rates:
    """Return the prices of an attempt, from its manifest; 0 if it does not record them."""
    return Rates() if planned.rates is None else Rates(**planned.rates.model_dump())


def cap_micro(plan: GradingPlan) -> int | None:
    """Return the cost cap in micro-units."""
    return None if plan.cap_usd is None else round(plan.cap_usd * MICRO)


def cost_differences(events: Sequence[Event], planned: Planned, recorded: Cost) -> tuple[str, ...]:
    """Return how cost, reported overrun and headroom differ from the recomputed ones."""
    if planned.rates is None:
        return ()
    costs = itemise(meter(events), rates_from(planned))
    expected = cost_record(costs, recorded.unit, recorded.method_id).model_dump()
    differences = [
        f"cost.{name} is {value} in the record, recomputed as {expected[name]}"
        for name, value in recorded.model_dump().items()
        if value != expected[name]
    ]
    reported = [event.payload.signals for event in events if is_overrun(event.payload)]
    alert = overrun_alert(events, costs, cap_micro(planned.grading), recorded.unit)
    if reported != ([] if alert is None else [alert.signals]):
        differences.append(f"overrun of the cost cap: {reported} in the log, recomputed as {alert and alert.signals}")
    return (*differences, *_headroom_differences(planned))


def _headroom_differences(planned: Planned) -> tuple[str, ...]:
    plan, guard = planned.headroom, planned.guard
    if plan is None or guard is None:
        return ()
    headroom = Headroom(plan.executions, plan.execution_us, plan.evidence_bytes, plan.margin_percent)
    reserve = headroom.micro(rates_from(planned))
    cap = spendable(cap_micro(planned.grading), reserve)
    pairs = (("headroom", plan.micro, reserve), ("the agent's cost cap", guard.cost_micro_usd, cap))
    return tuple(
        f"{name} is {value} micro-units in the manifest, recomputed as {wanted}"
        for name, value, wanted in pairs
        if value != wanted
    )
