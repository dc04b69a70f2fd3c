"""The sandbox backends by name: bubblewrap, docker, and those of plug-ins and of this process."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from agentbench.core.errors import InputError, SandboxUnavailable
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.protocol import Backend

NAMES = ("auto", "bwrap", "docker")


class SandboxFactory(Protocol):
    """Opens a sandbox backend; the plug-in of kind `sandbox`. Gets the folder where a backend may keep files.

    A backend is wide, because everything that agents and checks do goes through it. The usual plug-in changes the
    specification of the sandboxes of a built-in backend, with `ab.adapted_backend`.

    Examples:
        >>> import agentbench as ab
        >>> from dataclasses import replace
        >>> from pathlib import Path
        >>> def half_memory(state: Path) -> ab.SandboxBackend:
        ...     def halve(spec: ab.SandboxSpec) -> ab.SandboxSpec:
        ...         return replace(spec, limits=replace(spec.limits, memory_mb=spec.limits.memory_mb // 2))
        ...     return ab.adapted_backend("half_memory", "bwrap", state, halve)
        >>> ab.register("sandbox", "half_memory", half_memory)  # or: ab.run(…, sandbox=half_memory)
    """

    def __call__(self, state: Path, /) -> Backend: ...


OTHER_SANDBOXES: Extensions[SandboxFactory] = Extensions(Kind.SANDBOX, NAMES)


def open_backend(name: str, *, state: Path, needs_image: bool) -> Backend:
    """Open the backend of that name; `auto` picks docker for a task with an image, else bwrap.

    There is never a silent fallback to the bare host.

    Raises:
        InputError: no such backend.
        SandboxUnavailable: the backend does not work on this machine.
    """
    if name not in NAMES:
        require_backend(name)
        with OTHER_SANDBOXES.calling(name):
            return OTHER_SANDBOXES.get(name)(state)
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


def require_backend(name: str) -> None:
    """Check that there is a backend of that name, without opening it.

    Raises:
        InputError: there is none.
    """
    if name not in NAMES and not OTHER_SANDBOXES.has(name):
        names = ", ".join((*NAMES, *OTHER_SANDBOXES.names()))
        raise InputError(f"unknown sandbox backend '{name}'", remedy=f"use one of: {names}")
