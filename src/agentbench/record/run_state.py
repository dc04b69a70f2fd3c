"""The state of a run, from the last event of its chain and the lock on it; a run of another tool has no chain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import CanonicalError, parse_strict
from agentbench.core.file_lock import is_locked
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.naming import read_run_json
from agentbench.trace.events import RunClosed, RunOpened, RunResumed
from agentbench.trace.log import read_events

IMPORTED_ID = "imported:"
"""Prefix of the contract ids of imported records."""
RunState = Literal["finished", "incomplete", "interrupted", "running", "imported"]
"""A run is incomplete if it ended and planned attempts have no result; its chain does not say so, see `listed_state`."""


def run_state(path: Path) -> RunState:
    """Return the state that the run's chain ends in. A process that writes the run holds a lock on its chain."""
    if is_imported(path):
        return "imported"
    last: object = None
    for event in read_events(path / EVENTS, types={RunOpened.type, RunResumed.type, RunClosed.type}):
        last = event.payload
    if isinstance(last, RunClosed):
        return "finished" if last.status == "completed" else "interrupted"
    return "running" if is_locked(path / EVENTS) else "interrupted"


def is_imported(path: Path) -> bool:
    """Return whether another tool made the results. A run with a chain was never imported."""
    if (path / EVENTS).exists():
        return False
    try:
        meta = parse_strict(read_run_json(path))
    except (OSError, CanonicalError):
        return False
    return isinstance(meta, Mapping) and isinstance(meta.get("imported"), Mapping)
