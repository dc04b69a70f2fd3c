"""Names of third-party agents. Imports nothing, so that asking for a name does not load the agents."""

from __future__ import annotations

CLI = "cli:"
INSPECT = "inspect:"
HARBOR = "harbor:"


def is_third_party(agent: str) -> bool:
    """Return whether an agent is a third-party program, which is installed before it runs."""
    return agent.startswith((CLI, INSPECT, HARBOR))
