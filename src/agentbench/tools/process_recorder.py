"""Logs the processes of an agent program while it runs. Monitors judge each of them as it is logged."""

from __future__ import annotations

from agentbench.policy.model_actions import process_command
from agentbench.policy.shell import MAX_LINE
from agentbench.sandbox.protocol import ProcessEnd, ProcessStart
from agentbench.tools.event_recorder import EventRecorder
from agentbench.trace.events import Payload, ProcessFinished, ProcessStarted

MAX_ARGUMENTS = 256
MAX_PATH = 4_096


class ProcessRecorder:
    """Observes the processes of one call (a `ProcessObserver`)."""

    def __init__(self, recorder: EventRecorder, call_id: str) -> None:
        self._recorder = recorder
        self._call_id = call_id

    def __call__(self, process: ProcessStart | ProcessEnd) -> None:
        payload = self._started(process) if isinstance(process, ProcessStart) else self._finished(process)
        self._recorder.write(payload, "agent")

    def _started(self, process: ProcessStart) -> Payload:
        # Rules must see the text as the log has it, or recomputed decisions could differ.
        redact = self._recorder.redact
        argv = [redact(word[:MAX_LINE]) for word in process.argv[:MAX_ARGUMENTS]]
        shortened = (
            len(process.argv) > MAX_ARGUMENTS
            or any(len(word) > MAX_LINE for word in process.argv)
            or len(process.program) > MAX_PATH
            or len(process.cwd) > MAX_PATH
        )
        started = ProcessStarted(
            call_id=self._call_id,
            number=process.number,
            pid=process.pid,
            parent=process.parent,
            program=redact(process.program[:MAX_PATH]),
            argv=argv,
            cwd=redact(process.cwd[:MAX_PATH]),
            truncated=process.truncated or shortened,
            elapsed_us=process.elapsed_us,
        )
        # Rules do not read further than this, however the length is spread over the arguments.
        unread = len(process_command(started).text) > MAX_LINE
        return started.model_copy(update={"truncated": True}) if unread else started

    def _finished(self, process: ProcessEnd) -> Payload:
        return ProcessFinished(
            call_id=self._call_id,
            number=process.number,
            exit_code=process.exit_code,
            signal=process.signal,
            elapsed_us=process.elapsed_us,
        )
