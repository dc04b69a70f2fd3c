"""Starting containers, watching what they write, and removing what was left of ours."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.core.file_lock import is_locked
from agentbench.core.ids import new_ulid
from agentbench.sandbox.command_channel import CommandChannel
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.channel_socket import Link
from agentbench.sandbox.docker.container_events import Fates
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.docker.options import Birth, container_config, in_memory
from agentbench.sandbox.docker.sandbox import Body, DockerBox
from agentbench.sandbox.docker.usage import Meter
from agentbench.sandbox.memory_limit import MemoryMonitor
from agentbench.sandbox.protocol import SandboxSpec
from agentbench.sandbox.state import Owner, remove_leftovers
from agentbench.tree.entry import Entry

_READY_SEC = 60.0
_WATCH_SEC = 1.0
_WATCH_THROUGH_ENGINE_SEC = 5.0
_GONE_SEC = 10.0


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
        self._boxes: dict[str, DockerBox] = {}
        self._memory = MemoryMonitor()
        self._stop = threading.Event()
        self.remove_strays()
        self._fates = Fates(engine, self._owner.name)
        self._watcher = threading.Thread(target=self._watch, name="docker-disk", daemon=True)
        self._watcher.start()

    @property
    def owner(self) -> str:
        return self._owner.name

    @property
    def folder(self) -> Path:
        """A folder that goes with this backend."""
        return self._owner.folder

    def labels(self, kind: str, spec: SandboxSpec | None = None) -> dict[str, str]:
        ours = {
            **labels.of_state(self.state),
            labels.OWNER: self._owner.name,
            labels.KIND: kind,
        }
        return {f"agentbench.{key}": value for key, value in (spec.labels if spec else {}).items()} | ours

    def start(
        self,
        spec: SandboxSpec,
        birth: Birth,
        *,
        known: Mapping[bytes, Entry] | None = None,
        fill: Callable[[str], None] | None = None,
    ) -> DockerBox:
        """`fill` gets the container's name before it starts, to put files into it.

        Raises:
            SandboxError: it did not come up; the message is the engine's.
        """
        name = f"agentbench-{new_ulid().lower()}"
        link = Link(self._owner.folder / name)
        fate = self._fates.expect(name)
        started = False
        try:
            held = self.engine.facts.memory_limit
            self.engine.api.create(name, container_config(spec, birth, link.folder, memory_held=held))
            if fill is not None:
                fill(name)
            self.engine.api.start(name)
            accepted = link.accept(_READY_SEC)
            if accepted is None:
                raise SandboxError(f"the sandbox did not start: {self._last_words(name)}")
            sock, pid = accepted
            body = Body(
                name=name,
                engine=self.engine,
                fate=fate,
                meter=Meter(self.engine, name, pid),
                pid=pid,
                server=birth.server,
                workdir=spec.workdir,
                in_memory=in_memory(spec, birth),
                limits=spec.limits,
                known=known if self.engine.facts.plain_overlay else None,
            )
            box = DockerBox(body, CommandChannel(sock, name), self._closed)
            with self._lock:
                self._boxes[name] = box
            self._memory.add(box)
            started = True
            return box
        finally:
            link.close()
            if not started:
                self.engine.call("rm", "--force", "--volumes", name)
                link.remove()
                self._fates.forget(name)

    def remove(self, name: str) -> None:
        """A container that was kept to be committed."""
        self.engine.call("rm", "--force", "--volumes", name)

    def remove_strays(self) -> list[str]:
        """Remove containers of this state folder whose owner is dead; their names."""
        mark = f"label={labels.STATE}={labels.state_mark(self.state)}"
        shown = '{{.Names}}\t{{.Label "' + labels.OWNER + '"}}'
        listed = self.engine.must("ps", "--all", "--filter", mark, "--format", shown)
        dead = [
            name
            for name, _, owner in (line.partition("\t") for line in listed.splitlines())
            if owner != self._owner.name and not self._lives(owner)
        ]
        if dead:
            self.engine.call("rm", "--force", "--volumes", *dead)
        return dead

    def close(self) -> None:
        """End every container of ours, and wait until the engine has removed them."""
        self._stop.set()
        with self._lock:
            boxes = list(self._boxes.values())
        for box in boxes:
            with contextlib.suppress(SandboxError):
                box.close()
        for name, fate in self._fates.remaining().items():
            if not fate.gone.wait(_GONE_SEC):
                self.remove(name)
        self._fates.close()
        self._watcher.join(timeout=_WATCH_THROUGH_ENGINE_SEC)
        with contextlib.suppress(OSError):
            (self._owner.folder / "owner.json").unlink()
            (self._owner.folder / "lock").unlink()
            self._owner.folder.rmdir()
        self._owner.release()

    def _closed(self, box: DockerBox) -> None:
        with self._lock:
            self._boxes.pop(box.id, None)
        with contextlib.suppress(OSError):
            (self._owner.folder / box.id).rmdir()

    def _last_words(self, name: str) -> str:
        shown = "{{.State.Status}}, exit code {{.State.ExitCode}} {{.State.Error}}"
        done = self.engine.call("container", "inspect", "--format", shown, name)
        return done.stdout.kept.decode("utf-8", "replace").strip() or "it ended before its server was ready"

    def _lives(self, owner: str) -> bool:
        return is_locked(self.state / "live" / owner / "lock")

    def _watch(self) -> None:
        """The disk limit, held from outside: look often, end what is over it."""
        turns = 0
        while not self._stop.wait(_WATCH_SEC):
            turns += 1
            with self._lock:
                boxes = list(self._boxes.values())
            for box in boxes:
                if box.cheap_to_measure or turns % int(_WATCH_THROUGH_ENGINE_SEC / _WATCH_SEC) == 0:
                    box.hold_disk()
