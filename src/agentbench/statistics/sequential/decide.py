"""Apply a stopping rule to the paired outcomes so far."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.statistics.sequential.rules import Block, Decision, PlannedBlocks, Rule


def decide(rule: Rule, planned: PlannedBlocks, blocks: Sequence[Block], look: int) -> Decision:
    """Decide at a look from the first blocks of the plan; later blocks are ignored.

    Raises:
        ValueError: `look` is not one of the rule, or fewer blocks are complete than the look needs.
    """
    raise NotImplementedError


def first_decision(rule: Rule, planned: PlannedBlocks, blocks: Sequence[Block]) -> Decision | None:
    """Take every look whose blocks are complete, in order, and return the first decision that stops.

    Returns the last look's decision (`continue`) if none stops, and None if the first look is not complete yet.
    """
    raise NotImplementedError


def describe_rule(rule: Rule, planned: PlannedBlocks) -> str:
    """Describe the rule in one sentence, for messages before the first attempt."""
    raise NotImplementedError


def describe_decision(decision: Decision, name_a: str = "A", name_b: str = "B") -> str:
    """Describe the decision in one sentence: outcome, look, effect with adjusted interval, adjusted p-value."""
    raise NotImplementedError
