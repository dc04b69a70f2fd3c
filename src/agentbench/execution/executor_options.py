"""The options of an executor, apart from the executors, whose imports are slow."""

from __future__ import annotations

from agentbench.core.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExecutorOptions:
    """Where attempts run, and how many at a time. None of it changes what attempts do."""

    name: str = "local"
    workers: int = 1
    ray_address: str = "auto"
    """Address of the Ray cluster; `auto` finds the one on this machine."""
