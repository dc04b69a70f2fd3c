"""The plan of a study: every attempt that will be made, in the order in which it will be started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.contract.load import LoadedTask
from agentbench.run.config import PROTOCOL_SEED, Configuration


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One attempt to make: a method on a task, for the k-th time."""

    task: LoadedTask
    configuration: Configuration
    repeat: int
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Exactly one final record exists for each key."""
        return (self.task.task.id, self.configuration.variant, self.repeat)


def seeds(base: int, repeats: int) -> tuple[int, ...]:
    """The base seed for the first repeat, seeds spawned from it for the others (no deviation from the protocol)."""
    if repeats == 1:
        return (base,)
    from numpy.random import SeedSequence  # noqa: PLC0415 - 25 MB that a single repeat does not need

    spawned = SeedSequence(base).spawn(repeats - 1)
    return (base, *(int(one.generate_state(1)[0]) for one in spawned))


def make_plan(
    tasks: Sequence[tuple[LoadedTask, Sequence[Configuration]]], *, repeats: int = 1, seed: int = PROTOCOL_SEED
) -> tuple[PlanRow, ...]:
    """Interleave methods: all methods meet a task at about the same time, so that a slow hour hits them alike."""
    return tuple(
        PlanRow(task, configuration, repeat, one_seed)
        for repeat, one_seed in enumerate(seeds(seed, repeats), start=1)
        for task, configurations in tasks
        for configuration in configurations
    )
