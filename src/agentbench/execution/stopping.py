"""Interface of a stopping rule for a study. The statistics behind it are in `statistics/sequential`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from agentbench.record.schema import AttemptRecord
from agentbench.trace.events import ComparisonDecided


class Stopping(Protocol):
    """A rule, declared before the first attempt, that can end a comparison of two methods early.

    The plan lists blocks, two attempts each: one task and repeat, by both methods. At a look, all blocks up to it are
    complete and no later one has begun. So a decision depends on the plan and the records, never on the speed of a worker.
    """

    @property
    def looks(self) -> Sequence[int]:
        """Number of complete blocks at each look; the last is the whole plan."""
        ...

    def decide(self, records: Iterable[AttemptRecord]) -> ComparisonDecided | None:
        """Decide from the final records at a look; None if the comparison continues."""
        ...
