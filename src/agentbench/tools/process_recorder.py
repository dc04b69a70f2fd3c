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
        if isinstance(process, ProcessStart):
            exact = self._started(process)
            self._recorder.write(self._redacted(exact), "agent", original=exact)
        else:
            self._recorder.write(self._finished(process), "agent")

    def _redacted(self, started: ProcessStarted) -> ProcessStarted:
        """Redact a command before rules see it: they must see it as the log has it, or recomputed decisions could differ."""
        redact = self._recorder.redact
        redacted = started.model_copy(
            update={
                "program": redact(started.program),
                "argv": [redact(word) for word in started.argv],
                "cwd": redact(started.cwd),
            }
        )
        # Rules do not read further than this, however the length is spread over the arguments.
        unread = len(process_command(redacted).text) > MAX_LINE
        return redacted.model_copy(update={"truncated": True}) if unread else redacted

    def _started(self, process: ProcessStart) -> ProcessStarted:
        argv = [word[:MAX_LINE] for word in process.argv[:MAX_ARGUMENTS]]
        shortened = (
            len(process.argv) > MAX_ARGUMENTS
            or any(len(word) > MAX_LINE for word in process.argv)
            or len(process.program) > MAX_PATH
            or len(process.cwd) > MAX_PATH
        )
        return ProcessStarted(
            call_id=self._call_id,
            number=process.number,
            pid=process.pid,
            parent=process.parent,
            program=process.program[:MAX_PATH],
            argv=argv,
            cwd=process.cwd[:MAX_PATH],
            truncated=process.truncated or shortened,
            elapsed_us=process.elapsed_us,
        )

    def _finished(self, process: ProcessEnd) -> Payload:
        return ProcessFinished(
            call_id=self._call_id,
            number=process.number,
            exit_code=process.exit_code,
            signal=process.signal,
            elapsed_us=process.elapsed_us,
        )
