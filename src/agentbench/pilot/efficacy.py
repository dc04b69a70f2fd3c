"""The registered rule that may end the full stage early: symmetric in the first two methods, tied to the power assumptions.

A block is one task and repeat by both methods, in the order of the plan. The rule looks at the first complete blocks only, so
its decision does not depend on which attempt ended first.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.pilot.config import Efficacy, PilotFile
from agentbench.pilot.observations import Observation
from agentbench.pilot.plan import PlanLine
from agentbench.pilot.stopping import RuleState, Stop
from agentbench.reports.sequential_text import describe_decision
from agentbench.statistics.sequential.decide import first_decision
from agentbench.statistics.sequential.rules import (
    Block,
    PlannedBlocks,
    Rule,
    SequentialDecision,
    look_schedule,
    read_rule,
)

RULE = "efficacy"


def registered_rule(pilot: PilotFile, efficacy: Efficacy) -> Rule:
    """Return the rule with the significance level and the effect of the power assumptions.

    Raises:
        ValueError: a value is outside its range.
    """
    value: dict[str, object] = efficacy.model_dump(mode="json", exclude_none=True)
    if efficacy.futility is not None:
        value["futility"] = {"effect": pilot.power.effect, "conditional_power": efficacy.futility.conditional_power}
    return read_rule({**value, "alpha": pilot.power.alpha})


def compared_methods(pilot: PilotFile) -> tuple[str, str]:
    """Return the two methods that the rule compares: A and B."""
    return pilot.methods[0].label, pilot.methods[1].label


def schedule_problem(pilot: PilotFile, tasks: int) -> str:
    """Say why the plan does not fit the rule; empty if it does."""
    efficacy = pilot.stopping.efficacy
    if efficacy is None:
        return ""
    try:
        look_schedule(registered_rule(pilot, efficacy), PlannedBlocks(tasks, pilot.stages.full.repeats))
    except ValueError as error:
        return f"stopping.efficacy: {error}"
    return ""


def blocks_of(
    pilot: PilotFile,
    lines: Sequence[PlanLine],
    observations: Sequence[Observation],
    removed: frozenset[str] = frozenset(),
) -> list[Block]:
    """Return the complete blocks before the first one that is not complete, in the order of the plan.

    A block is complete when all methods and baselines have attempted it, so that a stop leaves them with equal numbers.
    Blocks of removed tasks are complete without information: a removal must not move the looks.
    """
    a, b = compared_methods(pilot)
    made = {attempt.key: attempt for attempt in observations if attempt.complete}
    blocks: list[Block] = []
    for task, repeat in dict.fromkeys((line.task_id, line.repeat) for line in lines):
        if task in removed:
            blocks.append(Block(task, repeat, None, None))
            continue
        if any((task, name, repeat) not in made for name in pilot.names):
            break
        values = [made[task, method, repeat].trial.value(pilot.endpoint) for method in (a, b)]
        blocks.append(Block(task, repeat, *values))
    return blocks


def sequential_decision(
    pilot: PilotFile,
    lines: Sequence[PlanLine],
    observations: Sequence[Observation],
    removed: frozenset[str] = frozenset(),
) -> SequentialDecision | None:
    """Take every look whose blocks are complete. None without a rule, or before its first look.

    `lines` is the registered plan, `observations` are those of tasks that were not removed.
    """
    efficacy = pilot.stopping.efficacy
    tasks = len({line.task_id for line in lines})
    if efficacy is None or tasks < 2:
        return None
    planned = PlannedBlocks(tasks, pilot.stages.full.repeats)
    return first_decision(registered_rule(pilot, efficacy), planned, blocks_of(pilot, lines, observations, removed))


def efficacy_state(
    pilot: PilotFile,
    lines: Sequence[PlanLine],
    observations: Sequence[Observation],
    removed: frozenset[str] = frozenset(),
) -> list[RuleState]:
    """Return the state of the rule; empty if none is registered. The end of the plan is not a stop."""
    if pilot.stopping.efficacy is None:
        return []
    decision = sequential_decision(pilot, lines, observations, removed)
    if decision is None:
        return [RuleState(RULE, "the first look is not complete", None)]
    text = decision_text(pilot, decision)
    early = decision.outcome.stops and decision.blocks < decision.planned_blocks
    return [RuleState(RULE, text, Stop(RULE, text, ()) if early else None)]


def decision_text(pilot: PilotFile, decision: SequentialDecision) -> str:
    return describe_decision(decision, *compared_methods(pilot))
