"""Strict stages: the stage each tool needs, the order of stages, and recomputing both from a log.

A contract lists its stages in the order in which they are granted. A stage grants its own tools and those of all stages listed
before it, so going back would take nothing away and is not possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from agentbench.core.dataclass import dataclass
from agentbench.trace.events import (
    Briefing,
    EventLike,
    PatchApplied,
    Payload,
    StageChanged,
    Termination,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)

S = TypeVar("S", bound=str)

PLAN = "plan"
"""Grants no tool of its own. The reason with which an agent leaves it is recorded as its plan."""
REQUEST_STAGE = "request_stage"
TOOL_STAGES: Mapping[str, str] = {
    "list_files": "inspect",
    "read_file": "inspect",
    "search": "inspect",
    "apply_patch": "write",
    "run": "test",
}
_REFUSALS = frozenset(
    {
        *("stage_denied", "tool_denied", "unknown_tool", "invalid_arguments"),
        *("command_denied", "quarantined", "write_suspended"),
    }
)
"""Errors of calls whose tool was not executed."""


@dataclass(frozen=True, slots=True)
class StageOrder(Generic[S]):
    """The stages of a contract in the order in which they are granted."""

    stages: tuple[S, ...]

    def grants(self, current: S | None, needed: S) -> bool:
        """Return whether the current stage grants the tools of another stage."""
        if current not in self.stages or needed not in self.stages:
            return False
        return self.stages.index(needed) <= self.stages.index(current)

    def following(self, current: S | None) -> S | None:
        """Return the only stage that can be requested next, or None after the last one."""
        after = 0 if current is None else self.stages.index(current) + 1
        return self.stages[after] if after < len(self.stages) else None


def recheck_stages(events: Iterable[EventLike], stages: tuple[str, ...]) -> list[str]:
    """Return where a log in strict mode breaks the stages: a call executed outside its stage, or a stage entered out of order."""
    recheck = _Recheck(StageOrder(stages))
    for event in events:
        recheck.observe(event.seq, event.payload)
    return recheck.problems


class _Recheck:
    def __init__(self, order: StageOrder[str]) -> None:
        self.problems: list[str] = []
        self._order = order
        self._current: str | None = None
        self._call: ToolCallStarted | None = None
        self._granted = True
        """Whether the stage at the start of the current call granted its tool."""
        self._active = False

    def observe(self, seq: int, payload: Payload) -> None:
        match payload:
            case Briefing():
                self._active = True
            case Termination():
                self._active = False
            case _ if not self._active:
                pass
            case StageChanged():
                self._change(seq, payload)
            case ToolCallStarted():
                self._start(seq, payload)
            case ToolCallFinished():
                self._finish(seq, payload)
            case WorkspaceMutated() | PatchApplied() if not self._granted:
                self._report(seq, f"{payload.type} in a call outside its stage")
            case _:
                pass

    def _start(self, seq: int, started: ToolCallStarted) -> None:
        self._call = started
        needed = TOOL_STAGES.get(started.tool)
        self._granted = needed is None or not started.by_agent or self._order.grants(self._current, needed)
        if started.stage != self._current:
            self._report(seq, f"call {started.call_id} in stage {started.stage}, recomputed as {self._current}")

    def _change(self, seq: int, change: StageChanged) -> None:
        expected = self._order.following(self._current) if self._current in (None, *self._order.stages) else None
        if change.before != self._current or change.after != expected:
            self._report(seq, f"stage changed from {change.before} to {change.after}, expected {expected}")
        by_request = self._call is None or self._call.tool == REQUEST_STAGE or not self._call.by_agent
        if change.before is not None and not by_request:
            self._report(seq, f"stage changed to {change.after} without a request")
        if change.before == PLAN and not change.reason:
            self._report(seq, "the stage plan was left without a plan")
        self._current = change.after

    def _finish(self, seq: int, finished: ToolCallFinished) -> None:
        executed = finished.ok or finished.error_type not in _REFUSALS
        if not self._granted and (executed or finished.changed_files):
            started_in = None if self._call is None else self._call.stage
            self._report(seq, f"{finished.tool} was executed outside its stage: it started in the stage {started_in}")
        denied = finished.error_type == "stage_denied"
        if denied and self._granted and finished.tool != REQUEST_STAGE:
            self._report(seq, f"{finished.tool} was denied although the stage {self._current} grants it")
        self._call, self._granted = None, True

    def _report(self, seq: int, message: str) -> None:
        self.problems.append(f"event {seq}: {message}")
