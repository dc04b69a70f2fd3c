"""Which backends there are, and which one serves."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.sandbox.bwrap import BwrapBackend
from agentbench.sandbox.protocol import Backend
from agentbench.sandbox.state import default_state

__all__ = ["NAMES", "open_backend", "state_root"]

NAMES = ("auto", "bwrap", "docker")


def open_backend(name: str, *, state: Path, needs_image: bool) -> Backend:
    """
    Raises:
        InputError: no such backend.
        SandboxUnavailable: it cannot be used here. There is never a silent fallback to the bare host.
    """
    if name not in NAMES:
        raise InputError(f"no sandbox backend {name!r}", remedy=f"one of {', '.join(NAMES)}")
    if name == "docker" or (name == "auto" and needs_image):
        raise SandboxUnavailable(
            "the docker backend is not there yet"
            if name == "docker"
            else "the task names an image, which needs docker",
            remedy="use --sandbox bwrap: it ignores the image and says so",
        )
    return BwrapBackend(state)


def state_root() -> Path:
    """Where this machine keeps prepared environments and caches."""
    return default_state()
