"""The price of execution: an amount per command, and an amount per hour."""

from __future__ import annotations

from agentbench.core.dataclass import dataclass

HOUR_US = 3_600_000_000


@dataclass(frozen=True, slots=True)
class ExecutionPrice:
    """Prices in micro-units."""

    call_micro: int = 0
    hour_micro: int = 0

    def cost(self, calls: int, duration_us: int) -> int:
        """Return the cost of `calls` commands that took `duration_us` together."""
        return calls * self.call_micro + duration_us * self.hour_micro // HOUR_US
