"""Decide by the registered efficacy rule, which may end the full stage early.

A block is one task and repeat by both methods, in the order of the plan. The rule looks at the first complete blocks only, so
its decision does not depend on which attempt ended first.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.decisions.stopping_rules import RuleState, Stop
from agentbench.pilot.design.efficacy_rule import compared_methods, efficacy_rule, planned_blocks
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.plan import PlanLine
from agentbench.reports.sequential_text import describe_decision
from agentbench.statistics.sequential.decide import first_decision
from agentbench.statistics.sequential.rules import Block, SequentialDecision

RULE = "efficacy"


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
    complete = {attempt.key: attempt for attempt in observations if attempt.complete}
    blocks: list[Block] = []
    for task, repeat in dict.fromkeys((line.task_id, line.repeat) for line in lines):
        if task in removed:
            blocks.append(Block(task, repeat, None, None))
            continue
        if any((task, name, repeat) not in complete for name in pilot.names):
            break
        values = [complete[task, method, repeat].trial.value(pilot.endpoint) for method in (a, b)]
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
    rule = efficacy_rule(pilot)
    tasks = len({line.task_id for line in lines})
    if rule is None or tasks < 2:
        return None
    return first_decision(rule, planned_blocks(pilot, tasks), blocks_of(pilot, lines, observations, removed))


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
