"""Headroom: the part of a cost cap that is reserved for acceptance and logging, so that an agent cannot spend it."""

from __future__ import annotations

from agentbench.core.dataclass import dataclass
from agentbench.policy.costs import Rates


@dataclass(frozen=True, slots=True)
class Headroom:
    """The expected work after the agent phase."""

    executions: int = 0
    """Expected builds, static commands and runs of checks."""
    execution_us: int = 0
    """Their expected time, from the runs of the checks on the base repository."""
    evidence_bytes: int = 0
    margin_percent: int = 0

    def micro(self, rates: Rates) -> int:
        """Return the reserve in micro-units: execution with a margin, and storage."""
        execution = rates.execution.cost(self.executions, self.execution_us)
        return -(-execution * (100 + self.margin_percent) // 100) + rates.storage(self.evidence_bytes)


def spendable(cap_micro: int | None, reserve_micro: int) -> int | None:
    """Return the part of a cost cap that an agent may spend.

    At least one micro-unit is left, so that a cap of 0 or one that acceptance uses up does not stop an agent that spends
    nothing: the first command with a cost ends the attempt. The ledger refuses model requests in both cases.
    """
    return None if cap_micro is None else max(cap_micro - reserve_micro, 1)
