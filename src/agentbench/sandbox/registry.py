"""Which backends there are, and which one serves."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.sandbox.bwrap.backend import BwrapBackend
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
        # Imported when it is wanted: most runs never use it.
        from agentbench.sandbox.docker.backend import DockerBackend  # noqa: PLC0415

        try:
            return DockerBackend(state)
        except SandboxUnavailable as error:
            if name == "docker":
                raise
            raise SandboxUnavailable(
                f"the task names an image, which needs docker: {error.message}",
                remedy=f"{error.remedy}; or use --sandbox bwrap, which ignores the image and says so",
            ) from error
    return BwrapBackend(state)


def state_root() -> Path:
    """Where this machine keeps prepared environments and caches."""
    return default_state()
