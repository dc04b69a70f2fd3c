"""Progress of a run while it is made, read from what is appended to its chain."""

from __future__ import annotations

import time
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.record.attempt_folder import EVENTS
from agentbench.trace.chain import BadLine, Line, read_line
from agentbench.trace.events import AttemptBegun, AttemptSealed, RunClosed, RunOpened, RunResumed
from agentbench.view.tail import Tail


@dataclass
class RunProgress:
    """Attempts that are being made, and how fast."""

    run: Path
    running: dict[str, Line] = field(default_factory=dict)
    """The first event of each attempt that has begun and not ended, by attempt id."""
    began: int = 0
    """When this process started the run, in microseconds since the epoch."""
    ended: int = 0
    """Attempts that ended since then."""
    closed: bool = False
    _tail: Tail = field(init=False)

    def __post_init__(self) -> None:
        self._tail = Tail(self.run / EVENTS)

    def read(self) -> None:
        """Read new events of the chain."""
        for raw in self._tail.all_lines():
            try:
                line = read_line(raw)
                attempt_id = str(line.value().get("attempt_id", ""))
            except BadLine:
                continue
            if line.type in {RunOpened.type, RunResumed.type}:
                self.began, self.ended, self.closed = line.t, 0, False
                self.running.clear()
            elif line.type == AttemptBegun.type:
                self.running[attempt_id] = line
            elif line.type == AttemptSealed.type:
                self.ended += 1
                self.running.pop(attempt_id, None)
            elif line.type == RunClosed.type:
                self.closed = True
                self.running.clear()

    def as_json(self, planned: int | None, done: int) -> dict[str, Json]:
        """Return running and waiting attempts, the rate and the time left. Rounded, so that a change means something."""
        running = len(self.running)
        hours = max(1e-9, (time.time() - self.began / 1e6) / 3600)
        rate = self.ended / hours if self.ended else None
        waiting = max(0, planned - done - running) if planned is not None else None
        left = None if rate is None or waiting is None or self.closed else (waiting + running) / rate * 3600
        return {
            "running": running,
            "waiting": waiting,
            "began": self.began,
            "per_hour": None if rate is None else float(f"{rate:.2g}"),
            "eta_sec": None if left is None else float(f"{left:.2g}"),
        }
