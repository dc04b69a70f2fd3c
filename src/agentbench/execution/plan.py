"""The plan: every attempt to make, in the order in which they start."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.contract.load import LoadedTask
from agentbench.core.canonical import digest
from agentbench.core.dataclass import dataclass
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.execution.config import Configuration


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One attempt to make: a variant on a task, for the k-th time."""

    task: LoadedTask
    configuration: Configuration
    repeat: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """A finished run has exactly one final record per key."""
        return (self.task.task.id, self.configuration.variant, self.repeat)


def seeds(base: int, repeats: int) -> tuple[int, ...]:
    """Return the base seed for the first repeat and seeds spawned from it for the others, as the protocol asks."""
    if repeats == 1:
        return (base,)
    from numpy.random import SeedSequence  # noqa: PLC0415 - a single repeat does not need its 25 MB

    spawned = SeedSequence(base).spawn(repeats - 1)
    return (base, *(int(sequence.generate_state(1)[0]) for sequence in spawned))


def make_plan(
    tasks: Sequence[tuple[LoadedTask, Sequence[Configuration]]], *, repeats: int = 1, seed: int = PROTOCOL_SEED
) -> tuple[PlanRow, ...]:
    """List every attempt in the order in which it starts.

    The seed decides in which order each repeat goes through the tasks. All variants work on a task one after the other, so
    that a slow hour affects them equally, and they take turns in going first.
    """
    rows: list[PlanRow] = []
    block = 0
    for repeat, repeat_seed in enumerate(seeds(seed, repeats), start=1):
        for task, configurations in sorted(tasks, key=lambda item: digest([str(seed), repeat, item[0].id])):
            first = block % max(1, len(configurations))
            turns = (*configurations[first:], *configurations[:first])
            rows += [PlanRow(task, configuration, repeat, repeat_seed) for configuration in turns]
            block += 1
    return tuple(rows)
