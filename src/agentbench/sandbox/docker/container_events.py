"""Follow the containers of a backend through the engine's event stream."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import field

from agentbench.core.dataclass import dataclass
from agentbench.process import StreamingProcess
from agentbench.sandbox.docker import labels
from agentbench.sandbox.docker.engine import Engine


@dataclass(slots=True)
class ContainerStatus:
    died: threading.Event = field(default_factory=threading.Event)
    removed: threading.Event = field(default_factory=threading.Event)
    oom: bool = False
    exit_code: str = ""
    engine_lost: bool = False
    """The event stream ended, so the rest is unknown."""
    ended_by_engine: bool = False
    """The engine was asked to end or pause the container. Nothing inside can ask it."""
    limit_exceeded: str = ""
    """The limit for which the harness ended the container, as a message."""


class ContainerEvents:
    def __init__(self, engine: Engine, owner: str) -> None:
        """
        Raises:
            HarnessError: the event stream cannot be started.
        """
        self._lock = threading.Lock()
        self._by_name: dict[str, ContainerStatus] = {}
        self._closing = False
        self._engine_lost = False
        # From a second ago: a container may die before the engine has started to stream.
        argv = [engine.program, "events", "--since", str(int(time.time()) - 1), "--filter", "type=container"]
        argv += ["--filter", f"label={labels.OWNER}={owner}", "--format", "{{json .}}"]
        self._stream = StreamingProcess(argv, on_line=self._on_event, on_end=self._on_end)

    def follow(self, name: str) -> ContainerStatus:
        """Follow a container by its name. Call it before the container is created."""
        with self._lock:
            status = self._by_name[name] = ContainerStatus(engine_lost=self._engine_lost)
        return status

    def forget(self, name: str) -> None:
        with self._lock:
            self._by_name.pop(name, None)

    def remaining(self) -> dict[str, ContainerStatus]:
        with self._lock:
            return dict(self._by_name)

    def close(self) -> None:
        self._closing = True
        self._stream.close()

    def _on_event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            attributes = event["Actor"]["Attributes"]
            action, name = event["Action"], attributes["name"]
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            status = self._by_name.get(name)
        if status is None:
            return
        if action == "oom":
            status.oom = True
        elif action in {"kill", "pause"}:
            status.ended_by_engine = True
        elif action == "die":
            status.exit_code = attributes.get("exitCode", "")
            status.died.set()
        elif action == "destroy":
            status.died.set()
            status.removed.set()
            self.forget(name)

    def _on_end(self) -> None:
        if self._closing:
            return
        with self._lock:
            self._engine_lost = True
            statuses = list(self._by_name.values())
        for status in statuses:
            status.engine_lost = True
            status.died.set()
            status.removed.set()
