"""A sandbox that never has network, also if a task asks for it during setup: for machines with such a policy."""

from dataclasses import replace
from pathlib import Path

import agentbench as ab


def airgap(state: Path) -> ab.SandboxBackend:
    return ab.adapted_backend("airgap", "bwrap", state, without_network)


def without_network(spec: ab.SandboxSpec) -> ab.SandboxSpec:
    return replace(spec, network=False)
