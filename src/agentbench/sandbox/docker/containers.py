"""Start containers, enforce their disk limit, and remove containers that dead harnesses left."""

from __future__ import annotations

import contextlib
import functools
import threading
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.core.file_lock import is_locked
from agentbench.core.ids import new_ulid
from agentbench.sandbox.command_channel import CommandChannel
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.channel_socket import ChannelSocket
from agentbench.sandbox.docker.container_config import ContainerParams, container_config, memory_folders
from agentbench.sandbox.docker.container_events import ContainerEvents
from agentbench.sandbox.docker.engine import Engine, EngineSlow
from agentbench.sandbox.docker.sandbox import Container, DockerSandbox
from agentbench.sandbox.docker.tarball import copy_into, write_workspace
from agentbench.sandbox.docker.usage import Meter
from agentbench.sandbox.host_watch import HostWatch
from agentbench.sandbox.memory_limit import MemoryMonitor
from agentbench.sandbox.protocol import SandboxSpec
from agentbench.sandbox.state import Owner, remove_leftovers

_READY_SEC = 60.0
_WATCH_SEC = 1.0
_WATCH_THROUGH_ENGINE_SEC = 5.0
_REMOVED_SEC = 10.0
_COPY_SEC = 900.0


class Containers:
    """All containers of one backend."""

    def __init__(self, engine: Engine, state: Path) -> None:
        """
        Raises:
            SandboxError: the state folder cannot be written.
        """
        self.engine = engine
        self.state = state
        remove_leftovers(state)
        self._owner = Owner(state)
        self._owner.folder.chmod(0o700)
        self._owner.record_cgroups(())
        self._lock = threading.Lock()
        self._sandboxes: dict[str, DockerSandbox] = {}
        self._memory = MemoryMonitor()
        self.stop = threading.Event()
        """Set when this backend is closed: no further container starts, and builds are cancelled."""
        self._remove_abandoned()
        self._events = ContainerEvents(engine, self._owner.name)
        self._watcher = threading.Thread(target=self._watch_disk, name="docker-disk", daemon=True)
        self._watcher.start()

    @property
    def owner(self) -> str:
        return self._owner.name

    @property
    def folder(self) -> Path:
        """A private folder that is removed with this backend."""
        return self._owner.folder

    def labels(self, kind: str, spec: SandboxSpec) -> dict[str, str]:
        run_labels = {f"agentbench.{key}": value for key, value in spec.labels.items()}
        return {**run_labels, **labels.state_labels(self.state), labels.OWNER: self._owner.name, labels.KIND: kind}

    def start(self, spec: SandboxSpec, params: ContainerParams) -> DockerSandbox:
        """Start a container, and another one if the engine is too slow for the first.

        Raises:
            SandboxError: it did not start, with the engine's message, or this backend is closed.
        """
        with contextlib.suppress(EngineSlow):
            return self._start(spec, params)
        return self._start(spec, params)

    def _start(self, spec: SandboxSpec, params: ContainerParams) -> DockerSandbox:
        self._require_open()
        name = f"agentbench-{new_ulid().lower()}"
        host = HostWatch(self.state)
        channel_socket = ChannelSocket(self._owner.folder / name)
        status = self._events.follow(name)
        facts = self.engine.facts
        started = False
        try:
            config = container_config(spec, params, channel_socket.folder, engine_limits_memory=facts.memory_limit)
            self.engine.create_container(name, config)
            if params.create_workdir:
                write = functools.partial(write_workspace, source=params.source, workdir=spec.workdir)
                copy_into(self.engine, name, write, _COPY_SEC, self.stop)
            self._require_open()
            self.engine.start_container(name)
            accepted = channel_socket.accept(_READY_SEC, self.stop)
            self._require_open()
            if accepted is None:
                message = f"the sandbox did not start: {self._exit_status(name)}"
                raise SandboxError(message) if status.died.is_set() else EngineSlow(message)
            sock, pid = accepted
            container = Container(
                name=name,
                engine=self.engine,
                status=status,
                meter=Meter(self.engine, name, pid),
                pid=pid,
                server=params.server,
                workdir=spec.workdir,
                memory_folders=memory_folders(spec, params),
                limits=spec.limits,
                known=params.known if facts.plain_overlay else None,
            )
            sandbox = DockerSandbox(container, CommandChannel(sock, name), host, self._on_closed)
            with self._lock:
                # `close` sets `stop` before it lists the sandboxes to close, so it cannot miss this one.
                if not self.stop.is_set():
                    self._sandboxes[name] = sandbox
            if self.stop.is_set():
                sandbox.close()
            self._require_open()
            self._memory.add(sandbox)
            started = True
            return sandbox
        finally:
            channel_socket.close()
            if not started:
                self.remove(name)
                channel_socket.remove()
                self._events.forget(name)

    def _require_open(self) -> None:
        if self.stop.is_set():
            raise SandboxError("the sandbox backend is closed")

    def remove(self, *names: str) -> None:
        self.engine.run("rm", "--force", "--volumes", *names)

    def close(self) -> None:
        """End every container of this backend, and wait until the engine has removed them."""
        self.stop.set()
        with self._lock:
            sandboxes = list(self._sandboxes.values())
        for sandbox in sandboxes:
            with contextlib.suppress(SandboxError):
                sandbox.close()
        for name, status in self._events.remaining().items():
            if not status.removed.wait(_REMOVED_SEC):
                self.remove(name)
        self._events.close()
        self._watcher.join(timeout=_WATCH_THROUGH_ENGINE_SEC)
        with contextlib.suppress(OSError):
            (self._owner.folder / "owner.json").unlink()
            (self._owner.folder / "lock").unlink()
            self._owner.folder.rmdir()
        self._owner.release()

    def _remove_abandoned(self) -> None:
        """Remove containers of this state folder whose harness is dead."""
        of_state = f"label={labels.STATE}={labels.state_hash(self.state)}"
        columns = '{{.Names}}\t{{.Label "' + labels.OWNER + '"}}'
        lines = self.engine.output("ps", "--all", "--filter", of_state, "--format", columns).splitlines()
        abandoned = [name for name, _, owner in (line.partition("\t") for line in lines) if not self._is_alive(owner)]
        if abandoned:
            self.remove(*abandoned)

    def _is_alive(self, owner: str) -> bool:
        return owner == self._owner.name or is_locked(self.state / "live" / owner / "lock")

    def _on_closed(self, sandbox: DockerSandbox) -> None:
        with self._lock:
            self._sandboxes.pop(sandbox.id, None)
        with contextlib.suppress(OSError):
            (self._owner.folder / sandbox.id).rmdir()

    def _exit_status(self, name: str) -> str:
        columns = "{{.State.Status}}, exit code {{.State.ExitCode}} {{.State.Error}}"
        done = self.engine.run("container", "inspect", "--format", columns, name)
        return done.stdout.text.strip() or "it ended before its server was ready"

    def _watch_disk(self) -> None:
        """Measure often, and end containers that exceed their disk limit."""
        rounds = 0
        while not self.stop.wait(_WATCH_SEC):
            rounds += 1
            with self._lock:
                sandboxes = list(self._sandboxes.values())
            for sandbox in sandboxes:
                if sandbox.cheap_to_measure or rounds % int(_WATCH_THROUGH_ENGINE_SEC / _WATCH_SEC) == 0:
                    sandbox.enforce_disk_limit()
