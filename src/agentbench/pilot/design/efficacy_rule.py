"""The rule that may end the full stage early: symmetric in the first two methods, tied to the power assumptions."""

from __future__ import annotations

from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.statistics.sequential.rules import PlannedBlocks, Rule, look_schedule, read_rule


def efficacy_rule(pilot: PilotFile) -> Rule | None:
    """Return the rule with the significance level and the effect of the power assumptions; None if there is none.

    Raises:
        ValueError: a value is outside its range.
    """
    efficacy = pilot.stopping.efficacy
    if efficacy is None:
        return None
    value: dict[str, object] = efficacy.model_dump(mode="json", exclude_none=True)
    if efficacy.futility is not None:
        value["futility"] = {"effect": pilot.power.effect, "conditional_power": efficacy.futility.conditional_power}
    return read_rule({**value, "alpha": pilot.power.alpha})


def planned_blocks(pilot: PilotFile, tasks: int) -> PlannedBlocks:
    """Return the blocks of the whole plan, which the looks are spread over."""
    return PlannedBlocks(tasks, pilot.stages.full.repeats)


def compared_methods(pilot: PilotFile) -> tuple[str, str]:
    """Return the two methods that the rule compares: A and B."""
    return pilot.methods[0].label, pilot.methods[1].label


def schedule_problem(pilot: PilotFile, tasks: int) -> str:
    """Say why the plan does not fit the rule; empty if it does."""
    try:
        rule = efficacy_rule(pilot)
        if rule is not None:
            look_schedule(rule, planned_blocks(pilot, tasks))
    except ValueError as error:
        return str(error)
    return ""
