"""Runs a program that acts as the agent, and observes it while it runs.

A program does not act through tools, so its changes are found by scanning the workspace: at every model request and every few
seconds. A decision of a rule or a cap to end the attempt closes the gateway and kills the program.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace

from agentbench.core.command import Command, Completed
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, PatchInvalid
from agentbench.sandbox.protocol import ProcessObserver
from agentbench.tools.definition import Execution, ToolContext
from agentbench.tools.process_recorder import ProcessRecorder
from agentbench.tools.run_command import KEEP_BYTES, finish, kill_until
from agentbench.tools.workspace_tracker import Changes

SCAN_SEC = 2.0
"""Longest time between two scans."""
SLOW_SCAN_SEC = 0.1
"""If scans take longer, the program gets as much time without one."""
RESPONSE_SCAN_SEC = 0.25
"""A response is judged after a scan that is at most this old."""


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """A program that acts as the agent: it runs in the sandbox until it exits or the wall clock runs out."""

    name: str
    line: str
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    of_task: bool = False
    """Whether it belongs to the task, like a reference script, and is not the agent under evaluation."""


class ProgramRun:
    """One run of an agent program. The gateway's threads call `scan` and `end` while `execute` waits for the program."""

    def __init__(self, context: ToolContext, program: AgentProgram, *, close_gateway: Callable[[], None]) -> None:
        self._context = context
        self._program = program
        self._close_gateway = close_gateway
        self._scanning = threading.Lock()
        self._last_scan_at = 0.0
        self._scan_durations = deque([0.0] * 3, maxlen=3)
        self._mutated = 0
        self._finished = False
        self._wake = threading.Event()
        self._exited = threading.Event()
        self._end: Callable[[], str] | None = None
        self._ended_by = ""
        self._timed_out = False

    def execute(self) -> Execution:
        """Run the program to its end.

        Raises:
            SandboxError: the sandbox itself failed.
            RecordError: a process could not be logged.
        """
        context, tracker = self._context, self._context.tracker
        tracker.settle()
        start = tracker.known_entries
        completed = self._run(ProcessRecorder(context.recorder, context.call_id))
        with self._scanning:
            self._finished = True
            try:
                last_changes = tracker.scan()
            except PatchInvalid as error:  # what ran in the sandbox killed all of it
                last_changes = Changes(problem=error.message)
            changes = last_changes if last_changes.problem is not None else tracker.changes_since(start)
            self._mutated = tracker.log_changes(context.call_id, last_changes, changes) or self._mutated
        execution = finish(context, completed, changes, self._mutated, ended_by=self._ended_by)
        return replace(execution, not_observed=_not_observed(context, completed))

    def scan(self, *, max_age_sec: float = 0.0) -> None:
        """Log what the program has changed so far, unless a scan is at most `max_age_sec` old."""
        requested = time.monotonic()
        with self._scanning:
            if self._finished or self._context.recorder.over.is_set():
                return
            # The shortest of the last scans, because a busy machine makes single scans slow.
            scan_sec = min(self._scan_durations)
            pause_sec = scan_sec if scan_sec > SLOW_SCAN_SEC else 0.0
            # A scan that began after this one was requested shows the same.
            if self._last_scan_at > requested - max(max_age_sec, pause_sec):
                return
            self._last_scan_at = time.monotonic()
            # If the sandbox died, the thread that waits for the program gets the error with its reason.
            with suppress(AgentBenchError):
                self._mutated = self._context.tracker.observe(self._context.call_id) or self._mutated
            self._scan_durations.append(time.monotonic() - self._last_scan_at)

    def end(self, decide: Callable[[], str]) -> None:
        """End the program. `decide` logs the decision and returns the reason; it is called on the watcher's thread."""
        self._end = decide
        self._wake.set()

    def _run(self, observe: ProcessObserver) -> Completed:
        context, program = self._context, self._program
        limit = max(min(context.rules.caps.wall_sec, context.time_left()), 0.001)
        command = Command(
            line=program.line,
            env=program.env,
            stdin=program.stdin,
            # The sandbox's clock does not stop while a model is unavailable, so the watcher ends the program in time.
            timeout_sec=limit + context.rules.caps.pause_sec,
            cwd=context.workdir,
            keep_bytes=KEEP_BYTES,
        )
        context.recorder.when_over(self._wake.set)
        watcher = threading.Thread(target=self._watch, name="program-watcher", daemon=True)
        watcher.start()
        try:
            completed = context.sandbox.run(command, observe=observe)
            return replace(completed, timed_out=True) if self._timed_out else completed
        finally:
            self._exited.set()
            self._wake.set()
            watcher.join()

    def _watch(self) -> None:
        over, time_left = self._context.recorder.over, self._context.time_left
        while not self._wake.wait(min(SCAN_SEC, max(time_left(), 0.0))):
            if time_left() <= 0:
                # `Session` ends the attempt with the wall-clock cap.
                self._timed_out = True
                kill_until(self._exited, self._context.sandbox)
                return
            self.scan()
        if self._exited.is_set():
            return
        if self._end is not None and not over.is_set():
            self._ended_by = self._end()
        stop = self._context.recorder.engine.stop
        self._ended_by = self._ended_by or (stop.detail if stop is not None else "the attempt is over")
        self._close_gateway()
        kill_until(self._exited, self._context.sandbox)


def _not_observed(context: ToolContext, completed: Completed) -> str | None:
    """Return why the processes of a program were not observed; None if they were."""
    if completed.processes is not None:
        return None
    return context.sandbox.observation_problem or "the observation ended before the command"
