"""The docker backend."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.docker.api import ImageGone
from agentbench.sandbox.docker.containers import Containers
from agentbench.sandbox.docker.engine import Engine, find_engine
from agentbench.sandbox.docker.engine_store import store_for
from agentbench.sandbox.docker.images import Images
from agentbench.sandbox.docker.options import Birth, check_workdir, seeded_places
from agentbench.sandbox.docker.prepare import DockerPreparer
from agentbench.sandbox.docker.sandbox import DockerBox
from agentbench.sandbox.docker.tarball import streamed, workspace
from agentbench.sandbox.memory_limit import MEMORY_NOTE
from agentbench.sandbox.protocol import LimitReport, Prepared, Sandbox, SandboxSpec, SetupPlan, SetupStep, Strength

NAME = "docker"
_FURNISHED_WORKDIR = "/workspace"


class DockerBackend:
    """Implements `protocol.Backend`. One per process is enough; safe to use from several threads."""

    name = NAME

    def __init__(self, state: Path, engine: Engine | None = None) -> None:
        """
        Raises:
            SandboxUnavailable: no docker, no engine, or no right to use it.
            SandboxError: the state folder cannot be written.
        """
        self._engine = engine or find_engine()
        if not self._engine.facts.local:
            raise SandboxUnavailable(
                "the docker engine is on another machine, and sandboxes are reached over a local socket",
                remedy="unset DOCKER_HOST (or DOCKER_CONTEXT) to use this machine's own engine",
            )
        self._containers = Containers(self._engine, state)
        self.layers = store_for(self._engine, state)
        self._images = Images(self._engine, state, self._containers.owner)
        self._preparer = DockerPreparer(self._containers, self._images, self.layers)
        self._lock = threading.Lock()
        self._closed = False

    def limits(self) -> LimitReport:
        facts = self._engine.facts
        notes = [
            MEMORY_NOTE.format("/tmp, /var/tmp and /dev/shm are")
            if facts.memory_limit
            else "memory: the engine holds no limit; the command server looks every 0.1 s and kills the largest",
            "disk: the writable layer is measured every second, and a container over its limit is ended",
            "disk: no single file can be larger than the limit",
        ]
        if facts.rootless:
            notes.append("rootless engine: limits hold as far as cgroups are delegated to the user")
        return LimitReport(
            cpu=_held(facts.cpu_limit),
            memory="hard" if facts.memory_limit else "monitored",
            pids=_held(facts.pids_limit),
            disk="monitored",
            notes=tuple(notes),
            on_request=("disk",),
        )

    def check(self, spec: SandboxSpec) -> None:
        """
        Raises:
            SandboxUnavailable: the image is not here, or the workspace cannot be where the contract wants it.
        """
        check_workdir(spec.workdir)
        self._images.check(spec)

    def prepare(self, plan: SetupPlan, spec: SandboxSpec, *, on_step: Callable[[SetupStep], None]) -> Prepared:
        check_workdir(spec.workdir)
        return self._preparer.prepare(plan, spec, on_step)

    def open(self, spec: SandboxSpec, prepared: Prepared | None) -> AbstractContextManager[Sandbox]:
        check_workdir(spec.workdir)
        return self._opened(spec, prepared)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._containers.close()
        self.layers.close()

    @contextlib.contextmanager
    def _opened(self, spec: SandboxSpec, prepared: Prepared | None) -> Iterator[Sandbox]:
        try:
            box, birth = self._start(spec, prepared)
        except ImageGone:
            if prepared is not None and not spec.hard_disk:
                raise
            # What an image was made ready as may go at any time: somebody pruned. It is made again.
            self._images.forget()
            box, birth = self._start(spec, prepared)
        try:
            box.set_environment(self._preparer.environment(spec))
            if birth.seeds_mb is not None:
                box.plant(seeded_places(spec.workdir), birth.seeds_mb)
            yield box
        finally:
            box.close()

    def _start(self, spec: SandboxSpec, prepared: Prepared | None) -> tuple[DockerBox, Birth]:
        birth, known = self._preparer.birth(spec, prepared)
        bare = prepared is None and spec.workdir != _FURNISHED_WORKDIR and not spec.hard_disk
        fill = self._place_workspace(spec) if bare else None
        return self._containers.start(spec, birth, known=known, fill=fill), birth

    def _place_workspace(self, spec: SandboxSpec) -> Callable[[str], None]:
        def fill(name: str) -> None:
            with streamed(lambda pipe: workspace(pipe, None, spec.workdir)) as stdin:
                self._engine.must("cp", "-", f"{name}:/", stdin=stdin)

        return fill


def _held(by_engine: bool) -> Strength:  # noqa: FBT001 - one fact, one word
    return "hard" if by_engine else "absent"
