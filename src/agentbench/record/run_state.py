"""The state of a run, from the last event of its chain and the lock on it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentbench.core.file_lock import is_locked
from agentbench.record.attempt_folder import EVENTS
from agentbench.trace.events import RunClosed, RunOpened, RunResumed
from agentbench.trace.log import read_events

RunState = Literal["finished", "interrupted", "running"]


def run_state(path: Path) -> RunState:
    """Return the state that the run's chain ends in. A process that writes the run holds a lock on its chain."""
    last: object = None
    for event in read_events(path / EVENTS, types={RunOpened.type, RunResumed.type, RunClosed.type}):
        last = event.payload
    if isinstance(last, RunClosed):
        return "finished" if last.status == "completed" else "interrupted"
    return "running" if is_locked(path / EVENTS) else "interrupted"
