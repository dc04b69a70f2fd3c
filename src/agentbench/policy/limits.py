"""The limits that breakers and caps use in one attempt."""

from __future__ import annotations

from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.policy.budget import Budget, CostCap
from agentbench.policy.thresholds import Thresholds, published_thresholds


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything besides the events that decisions depend on. The manifest records it."""

    budget: Budget = field(default_factory=Budget)
    wall_us: int | None = None
    thresholds: Thresholds = field(default_factory=published_thresholds)
    max_installs: int | None = None
    not_applicable: frozenset[str] = frozenset()
    """Rules and caps that are skipped, because the events they need are not seen."""
    stops_enforced: bool = True
    """A decision to end the attempt is carried out at once, so no other decision follows it."""
    cost: CostCap | None = None
    """The whole cost cap, which only messages state."""
