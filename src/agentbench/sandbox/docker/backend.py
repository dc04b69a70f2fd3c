"""The docker backend: `protocol.Backend` with containers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.docker.container_config import ContainerParams, check_workdir, environment, seeded_folders
from agentbench.sandbox.docker.containers import Containers
from agentbench.sandbox.docker.engine import Engine, ImageGone, find_engine
from agentbench.sandbox.docker.environments import DockerEnvironments
from agentbench.sandbox.docker.images import Images, layer_store
from agentbench.sandbox.docker.sandbox import DockerSandbox
from agentbench.sandbox.environments.prepare import Preparer
from agentbench.sandbox.memory_limit import MEMORY_NOTE
from agentbench.sandbox.protocol import LimitReport, Prepared, Sandbox, SandboxSpec, SetupPlan, SetupStep, Strength

NAME = "docker"
_BASE_IMAGE_WORKDIR = "/workspace"


class DockerBackend:
    """Implements `protocol.Backend`. One per process is enough; it is safe to use from several threads."""

    name = NAME

    def __init__(self, state: Path, engine: Engine | None = None) -> None:
        """
        Raises:
            SandboxUnavailable: docker is not installed, no engine is running, or this user may not use it.
            SandboxError: the state folder cannot be written.
        """
        self._engine = engine or find_engine()
        if not self._engine.facts.local:
            raise SandboxUnavailable(
                "the docker engine is on another machine, but sandboxes need a local socket",
                remedy="unset DOCKER_HOST (or DOCKER_CONTEXT) to use the engine of this machine",
            )
        self._containers = Containers(self._engine, state)
        self.layers = layer_store(self._engine, state)
        self._images = Images(self._engine, state, self._containers.owner, self._containers.stop)
        environments = DockerEnvironments(self._containers, self._images, self.layers)
        self._preparer = Preparer(NAME, self.layers, environments)
        self._lock = threading.Lock()
        self._closed = False

    def limits(self) -> LimitReport:
        facts = self._engine.facts
        notes = [
            MEMORY_NOTE.format("/tmp, /var/tmp and /dev/shm are")
            if facts.memory_limit
            else "memory: the engine enforces no limit; the command server checks every 0.1 s and kills the largest process",
            "disk: the writable layer is measured every second, and a container over its limit is ended",
            "disk: no single file can be larger than the limit",
        ]
        if facts.rootless:
            notes.append("rootless engine: limits are enforced as far as cgroups are delegated to the user")
        return LimitReport(
            cpu=_strength(enforced=facts.cpu_limit),
            memory="hard" if facts.memory_limit else "monitored",
            pids=_strength(enforced=facts.pids_limit),
            disk="monitored",
            notes=tuple(notes),
            on_request=("disk",),
        )

    def check(self, spec: SandboxSpec) -> None:
        """
        Raises:
            SandboxUnavailable: the image is missing, or the workspace cannot be where the contract wants it.
        """
        check_workdir(spec.workdir)
        self._images.check(spec)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        check_workdir(spec.workdir)
        with contextlib.suppress(ImageGone):
            return self._preparer.prepare(plan, spec, on_step)
        # Anyone may remove a base image at any time. Build it again.
        self._images.forget()
        return self._preparer.prepare(plan, spec, on_step)

    @contextlib.contextmanager
    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        check_workdir(spec.workdir)
        try:
            sandbox, params = self._start(spec, prepared)
        except ImageGone:
            if prepared is not None and not spec.hard_disk:
                raise
            # Anyone may remove a base image or a seeded image at any time. Build it again.
            self._images.forget()
            sandbox, params = self._start(spec, prepared)
        with contextlib.closing(sandbox):
            sandbox.set_environment(environment(self._images.base(spec).env, spec.env))
            if params.seeds_mb is not None:
                sandbox.copy_seeds(seeded_folders(spec.workdir), params.seeds_mb)
            yield sandbox

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._containers.close()
        self.layers.close()

    def _start(self, spec: SandboxSpec, prepared: Prepared | None) -> tuple[DockerSandbox, ContainerParams]:
        base = self._images.base(spec)
        params = ContainerParams(
            base.image, base.python, base.server, labels=self._containers.labels(spec.phase.value, spec)
        )
        if prepared is not None:
            ready = self._preparer.get(prepared)
            params.image = str(ready.layer.metadata["image"])
            params.known = ready.entries
        if spec.hard_disk:
            params.image, params.seeds_mb = self._images.seeded(params.image, spec.workdir)
            params.known = None
        params.create_workdir = prepared is None and spec.workdir != _BASE_IMAGE_WORKDIR and not spec.hard_disk
        return self._containers.start(spec, params), params


def _strength(*, enforced: bool) -> Strength:
    return "hard" if enforced else "absent"
