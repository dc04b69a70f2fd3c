"""The sandbox backends by name."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.protocol import Backend

NAMES = ("auto", "bwrap", "docker")


def open_backend(name: str, *, state: Path, needs_image: bool) -> Backend:
    """Open the backend of that name; `auto` picks docker for a task with an image, else bwrap.

    There is never a silent fallback to the bare host.

    Raises:
        InputError: no such backend.
        SandboxUnavailable: the backend does not work on this machine.
    """
    if name not in NAMES:
        raise InputError(f"unknown sandbox backend {name!r}", remedy=f"use one of: {', '.join(NAMES)}")
    if name == "docker" or (name == "auto" and needs_image):
        # Imported on demand: most runs never use it.
        from agentbench.sandbox.docker.backend import DockerBackend  # noqa: PLC0415

        try:
            return DockerBackend(state)
        except SandboxUnavailable as error:
            if name == "docker":
                raise
            raise SandboxUnavailable(
                f"the task names an image, which requires docker: {error.message}",
                remedy=f"{error.remedy}; or pass --sandbox bwrap, which ignores the image and reports that",
            ) from error
    return BwrapBackend(state)
