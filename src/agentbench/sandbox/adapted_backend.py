"""A backend whose sandboxes are those of another backend, with a changed specification."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from agentbench.sandbox.protocol import Backend, LimitReport, Prepared, Sandbox, SandboxSpec, SetupPlan, SetupStep
from agentbench.sandbox.registry import open_backend

Adapt = Callable[[SandboxSpec], SandboxSpec]


def adapted_backend(name: str, base: str, state: Path, adapt: Adapt) -> Backend:
    """Return the backend `base` under another name. `adapt` changes the specification of each of its sandboxes.

    The name is recorded, so that attempts in changed sandboxes are not compared with others by accident.

    Raises:
        SandboxUnavailable: the backend `base` does not work on this machine.

    Examples:
        >>> import agentbench as ab
        >>> from pathlib import Path
        >>> backend = ab.adapted_backend("plain", "bwrap", Path("state"), lambda spec: spec)
        >>> backend.name
        'plain'
        >>> backend.close()
    """
    return AdaptedBackend(name, open_backend(base, state=state, needs_image=False), adapt)


class AdaptedBackend:
    """Passes everything to another backend, with another specification."""

    def __init__(self, name: str, base: Backend, adapt: Adapt) -> None:
        self.name = name
        self._base = base
        self._adapt = adapt

    def limits(self) -> LimitReport:
        return self._base.limits()

    def check(self, spec: SandboxSpec) -> None:
        self._base.check(self._adapt(spec))

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        # An environment that was set up in changed sandboxes is another one.
        own = replace(plan, key=f"{self.name}-{plan.key}")
        return replace(self._base.prepare(own, self._adapt(spec), on_step=on_step), backend=self.name)

    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> AbstractContextManager[Sandbox]:
        return self._base.open(self._adapt(spec), prepared)

    def close(self) -> None:
        self._base.close()
