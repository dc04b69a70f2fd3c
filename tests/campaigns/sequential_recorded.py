"""Applies stopping rules to the attempts of finished pilots: after how many would each rule have decided?

    python -m tests.campaigns.sequential_recorded STUDY…

Every pair of methods and baselines of a pilot is shown, so nothing is selected for its result. The attempts were made without
these rules; they are taken in the order of the registered plan.
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentbench.pilot.pilot_state import PilotState, read_registered_state
from agentbench.statistics.sequential.decide import first_decision
from agentbench.statistics.sequential.rules import Block, PlannedBlocks, Rule, SequentialDecision, look_schedule
from tests.campaigns.sequential import FIXED, RULES


@dataclass(frozen=True)
class RecordedPair:
    """Two methods, and the decision of each rule about them; None if the plan is too small for its looks."""

    a: str
    b: str
    blocks: int
    decisions: dict[str, SequentialDecision | None]


def recorded_pairs(state: PilotState) -> Iterator[RecordedPair]:
    """Apply every rule, and the fixed design, to every pair of methods of a pilot."""
    made = {attempt.key: attempt for attempt in state.observations}
    order = list(dict.fromkeys((line.task_id, line.repeat) for line in state.lines))
    planned = PlannedBlocks(len({task for task, _ in order}), state.pilot.stages.full.repeats)
    for a, b in itertools.combinations(state.pilot.names, 2):
        blocks = [
            Block(task, repeat, *(made[task, method, repeat].trial.value(state.pilot.endpoint) for method in (a, b)))
            for task, repeat in order
        ]
        rules = {"fixed": FIXED, **RULES}
        yield RecordedPair(a, b, len(blocks), {name: _decision(rule, planned, blocks) for name, rule in rules.items()})


def _decision(rule: Rule, planned: PlannedBlocks, blocks: list[Block]) -> SequentialDecision | None:
    try:
        look_schedule(rule, planned)
    except ValueError:
        return None
    return first_decision(rule, planned, blocks)


def main() -> None:
    for folder in sys.argv[1:]:
        for pair in recorded_pairs(read_registered_state(Path(folder))):
            print(f"{pair.a}, {pair.b}")
            for name, decision in pair.decisions.items():
                if decision is not None:
                    attempts = f"{2 * decision.blocks} of {2 * pair.blocks} attempts"
                    print(
                        f"  {name}: {decision.outcome.value} after {attempts}, adjusted p = {decision.adjusted_p:.3g}"
                    )


if __name__ == "__main__":
    main()
