"""What the tools work on, behind the session."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from agentbench.core.command import Stream
from agentbench.sandbox.protocol import Sandbox
from agentbench.tools.event_recorder import EventRecorder
from agentbench.tools.result import ToolResult
from agentbench.tools.rules import Rules
from agentbench.tools.scope import Scope
from agentbench.tools.workspace_tracker import WorkspaceTracker


@dataclass(slots=True)
class ToolContext:
    """One sandbox with its workspace, what is known of the workspace, and the rules that hold."""

    sandbox: Sandbox
    workdir: str
    tracker: WorkspaceTracker
    rules: Rules
    recorder: EventRecorder
    time_left: Callable[[], float]
    scope: Scope = field(init=False)
    call_id: str = ""
    """Of the call at work: events of its effects carry it."""

    def __post_init__(self) -> None:
        self.scope = self.rules.scope


_NOTHING = Stream(sha256=hashlib.sha256(b"").hexdigest())


@dataclass(frozen=True, slots=True)
class Execution:
    """What came of a call: the answer, and the whole output for the log."""

    result: ToolResult
    stdout: Stream = _NOTHING
    stderr: Stream = _NOTHING
    killed: int = 0
    duration_us: int = 0


def text_stream(data: bytes) -> Stream:
    """Output that a tool made on the host."""
    return Stream(head=data, total_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
