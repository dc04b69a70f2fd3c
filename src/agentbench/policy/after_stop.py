"""Finds what an agent did after a decision to end its attempt.

A `terminate` intervention is carried out at once, so only what was in progress may follow it, until the `termination` event:

- an `llm_response` to a request that was logged before;
- the `tool_call_finished` of a call that was logged before, and the events of this call. Its processes and network requests may
  follow for `KILL_US`, because it takes a moment to kill them, and at most `MAX_SCANS` changes of the workspace: a scan in
  progress, the last scan, and the reversal of changes outside the editable scope.

A new model request, a new call, a second `terminate` or anything of a call that is not in progress is an act after the end.

After the `termination` event only the harness acts, so a model request, a call, a process or a change of the workspace that
follows it is an act after the end too.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentbench.trace.chain import Event
from agentbench.trace.events import (
    Briefing,
    Intervention,
    LlmRequest,
    LlmResponse,
    NetworkRequest,
    PatchApplied,
    ProcessStarted,
    Termination,
    TestsStarted,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)

KILL_US = 10_000_000
"""Microseconds in which the processes of a call must be dead. The harness takes less than a second; the rest is for busy machines."""
MAX_SCANS = 3

_ACTS = (LlmRequest, ToolCallStarted, ProcessStarted, WorkspaceMutated)
"""Events that only an agent causes."""


def acts_after_stop(events: Iterable[Event]) -> list[str]:
    """Return what the agent did after its attempt was ended, by event."""
    search = _Search()
    for event in events:
        search.observe(event)
    return search.problems


class _Search:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._active = False
        self._stop: Event | None = None
        self._end: Event | None = None
        self._calls: set[str] = set()
        self._requests: set[str] = set()
        self._scans = 0

    def observe(self, event: Event) -> None:
        payload = event.payload
        if isinstance(payload, Briefing):
            self._active = True
        elif self._end is not None and isinstance(payload, _ACTS):
            self.problems.append(
                f"event {event.seq}: {payload.type} after the end of the agent in event {self._end.seq}"
            )
        elif isinstance(payload, Termination) and self._active:
            self._active, self._end = False, event
        if not self._active:
            return
        if self._stop is not None:
            act = self._act(event, self._stop)
            if act:
                self.problems.append(f"event {event.seq}: {act} after event {self._stop.seq} ended the attempt")
        match payload:
            case Intervention(action="terminate"):
                self._stop = self._stop or event
            case ToolCallStarted():
                self._calls.add(payload.call_id)
            case ToolCallFinished():
                self._calls.discard(payload.call_id)
            case LlmRequest():
                self._requests.add(payload.request_id)
            case LlmResponse():
                self._requests.discard(payload.request_id)

    def _act(self, event: Event, stop: Event) -> str:
        """Return what the agent does in an event after the end; empty if that is allowed."""
        payload, act = event.payload, ""
        match payload:
            case LlmRequest():
                act = f"model request {payload.request_id}"
            case ToolCallStarted():
                act = f"tool call {payload.call_id}"
            case Intervention(action="terminate"):
                act = "another decision to end it"
            case LlmResponse() if payload.request_id not in self._requests:
                act = f"response to {payload.request_id}, which was not open,"
            case ToolCallFinished() if payload.call_id not in self._calls:
                act = f"end of call {payload.call_id}, which was not in progress,"
            case TestsStarted() if payload.step not in self._calls:
                act = "test run"
            case PatchApplied() if payload.call_id not in self._calls:
                act = "patch"
            case WorkspaceMutated():
                self._scans += 1
                act = "" if payload.call_id in self._calls and self._scans <= MAX_SCANS else "change of the workspace"
            case ProcessStarted() if payload.call_id not in self._calls or event.t - stop.t > KILL_US:
                act = f"process {payload.number}"
            case NetworkRequest() if not self._calls or event.t - stop.t > KILL_US:
                act = f"network request {payload.request_id}"
        return act
