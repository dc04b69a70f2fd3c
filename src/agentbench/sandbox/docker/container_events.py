"""What became of containers, as the engine tells it, through one listener for all of a backend's."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

from agentbench.process import StreamingProcess
from agentbench.sandbox.docker.engine import Engine
from agentbench.sandbox.docker.labels import OWNER as OWNER_LABEL


@dataclass(slots=True)
class Fate:
    """One container's."""

    died: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    oom: bool = False
    exit_code: str = ""
    lost: bool = False
    """Nobody can tell any more: the engine went away."""
    ended_for: str = ""
    """Why we ended it ourselves, when that was the candidate's doing."""


class Fates:
    def __init__(self, engine: Engine, owner: str) -> None:
        """
        Raises:
            HarnessError: the listener cannot be started.
        """
        self._lock = threading.Lock()
        self._by_name: dict[str, Fate] = {}
        self._closing = False
        self.lost = False
        # From a moment ago: listening begins when the engine has heard of it, and a container may be quicker.
        argv = [engine.program, "events", "--since", str(int(time.time()) - 1), "--filter", "type=container"]
        argv += ["--filter", f"label={OWNER_LABEL}={owner}", "--format", "{{json .}}"]
        self._listener = StreamingProcess(argv, env=None, on_line=self._heard, on_end=self._ended)

    def expect(self, name: str) -> Fate:
        """Follow a container by its name, from before it exists."""
        with self._lock:
            fate = self._by_name[name] = Fate(lost=self.lost)
        return fate

    def forget(self, name: str) -> None:
        with self._lock:
            self._by_name.pop(name, None)

    def remaining(self) -> dict[str, Fate]:
        with self._lock:
            return dict(self._by_name)

    def close(self) -> None:
        self._closing = True
        self._listener.close()

    def _heard(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            attributes = event["Actor"]["Attributes"]
            what, name = event["Action"], attributes["name"]
        except (ValueError, KeyError, TypeError):
            return
        with self._lock:
            fate = self._by_name.get(name)
        if fate is None:
            return
        if what == "oom":
            fate.oom = True
        elif what == "die":
            fate.exit_code = attributes.get("exitCode", "")
            fate.died.set()
        elif what == "destroy":
            fate.died.set()
            fate.gone.set()
            self.forget(name)

    def _ended(self) -> None:
        if self._closing:
            return
        with self._lock:
            self.lost = True
            fates = list(self._by_name.values())
        for fate in fates:
            fate.lost = True
            fate.died.set()
            fate.gone.set()
