"""Write the evidence files that people open first: logs, conversation, tool calls, diffs, timings. All derive from the events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from agentbench.acceptance.validation import Baseline
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import RecordError
from agentbench.record.attempt_folder import MANIFEST, TASK_FILE, AttemptFolder
from agentbench.record.manifest import read_manifest
from agentbench.record.schema import ArtifactPaths
from agentbench.sandbox.protocol import SetupStep
from agentbench.trace.events import (
    AcceptanceCheck,
    Excerpt,
    LlmRequest,
    LlmResponse,
    PatchApplied,
    TestsFinished,
    TestsStarted,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import read_events

DECOY_RUNS = b"\n[The runs below mix real tests with decoy tests, which fail as expected.]\n\n"


def write_evidence(
    folder: AttemptFolder, task: LoadedTask, log: Path, steps: Sequence[SetupStep], baseline: Baseline | None
) -> ArtifactPaths:
    """Write the evidence files of an attempt. Return the paths that its record names."""
    folder.write(TASK_FILE, task.text)
    folder.write("logs/setup_stdout.txt", _setup_log(steps, "stdout"))
    folder.write("logs/setup_stderr.txt", _setup_log(steps, "stderr"))
    failing = None
    if baseline is not None:
        failing = folder.write("logs/failing_stdout.txt", baseline.stdout)
        folder.write("logs/failing_stderr.txt", baseline.stderr)
    _write_environment(folder)
    if not folder.withholds_text:
        _write_conversation(folder, log)
    checks = _from_events(folder, log)
    passing = None
    if checks is not None:
        folder.alias("logs/passing_stderr.txt", "logs/checks_stderr.txt")
        passing = folder.alias("logs/passing_stdout.txt", "logs/checks_stdout.txt")
    return ArtifactPaths(task_dir=folder.task_dir, failing_stdout=failing, passing_stdout=passing, checks_stdout=checks)


def _write_environment(folder: AttemptFolder) -> None:
    """Copy the part of the manifest that describes the environment to `meta/environment.json`."""
    try:
        manifest = read_manifest(folder.path / MANIFEST).protocol_manifest
    except RecordError:
        return
    value = {
        "sandbox": manifest.planned.sandbox.model_dump(mode="json"),
        "observed": None if manifest.observed is None else manifest.observed.model_dump(mode="json"),
    }
    folder.write_derived("meta/environment.json", json.dumps(value, indent=2))


def _write_conversation(folder: AttemptFolder, log: Path) -> None:
    events = read_events(log, types={LlmRequest.type, LlmResponse.type})
    first = next(events, None)
    lines = b""
    if first is not None:
        from agentbench.execution.attempt.conversation import conversation  # noqa: PLC0415 - a given patch has none

        lines = conversation(chain([first], events), folder.blobs())
    folder.write_derived("agent/conversation.jsonl", lines)


def _setup_log(steps: Sequence[SetupStep], stream: str) -> bytes:
    return b"".join(b"$ %s\n%s\n" % (step.command.encode(), getattr(step, stream)) for step in steps)


def _from_events(folder: AttemptFolder, log: Path) -> str | None:
    """Write tool calls, step diffs, output of agent and checks, and timings in one pass over the log."""
    calls: list[bytes] = []
    agent = _Output()
    checks = _CheckOutput(folder)
    first = last = 0
    diffs = 0
    for event in read_events(log):
        first, last = first or event.t, event.t
        match event.payload:
            case ToolCallStarted() | ToolCallFinished() as call:
                line = {"seq": event.seq, "type": event.type, **call.model_dump(mode="json")}
                calls.append(json.dumps(line, ensure_ascii=True).encode() + b"\n")
                if isinstance(call, ToolCallFinished) and call.by_harness:
                    agent.add(_text(folder, call.stdout), _text(folder, call.stderr))
            case WorkspaceMutated(diff=diff) | PatchApplied(diff=diff) if (
                diff.total_bytes and not folder.withholds_text
            ):
                diffs += 1
                folder.write_derived(f"diffs/step_{diffs:04}.patch", _text(folder, diff))
            case TestsStarted() | TestsFinished() | AcceptanceCheck() as step:
                checks.add(step)
            case _:
                pass
    folder.write_derived("agent/tool_calls.jsonl", b"".join(calls))
    agent.write(folder, "agent")
    folder.write_derived(
        "meta/timings.json", json.dumps({"total_us": last - first, "checks_us": checks.timings}, indent=2)
    )
    return checks.finish().write(folder, "checks")


class _Output:
    """Output of several commands, one after the other."""

    def __init__(self) -> None:
        self.stdout: list[bytes] = []
        self.stderr: list[bytes] = []

    def add(self, stdout: bytes, stderr: bytes = b"") -> None:
        self.stdout.append(stdout)
        self.stderr.append(stderr)

    def write(self, folder: AttemptFolder, name: str) -> str | None:
        """Write both streams if any command ran, and return the path of stdout."""
        if not self.stdout:
            return None
        folder.write_derived(f"logs/{name}_stderr.txt", b"".join(self.stderr))
        return folder.write_derived(f"logs/{name}_stdout.txt", b"".join(self.stdout))


class _CheckOutput:
    """Output of the checks. Runs with decoys come after the failures of real tests."""

    def __init__(self, folder: AttemptFolder) -> None:
        self.timings: dict[str, int] = {}
        self._folder = folder
        self._output = _Output()
        self._commands: dict[str, str] = {}
        self._decoy_runs: dict[str, list[bytes]] = {}

    def add(self, event: TestsStarted | TestsFinished | AcceptanceCheck) -> None:
        match event:
            case TestsStarted():
                self._commands[event.step] = event.command
            case TestsFinished():
                self._finished(event)
            case AcceptanceCheck() if event.check_id in self._decoy_runs:
                runs = self._decoy_runs.pop(event.check_id)
                self._output.add(b"".join((_text(self._folder, event.diagnostics), DECOY_RUNS, *runs)))
            case _:
                pass

    def _finished(self, event: TestsFinished) -> None:
        step = event.step
        header = f"$ {self._commands.get(step, '')}\n[{step}: {event.why}]\n".encode("utf-8", "backslashreplace")
        stdout, stderr = (_text(self._folder, stream) + b"\n" for stream in (event.stdout, event.stderr))
        check, _, decoy_run = step.partition("~")
        if decoy_run:
            self._decoy_runs.setdefault(check, []).append(header + stdout)
            self._output.add(b"", stderr)
        elif check in self._decoy_runs:
            # The decision over several runs repeats the output of the first.
            self._output.add(header)
        else:
            self._output.add(header + stdout, stderr)
        self.timings[step] = event.duration_us

    def finish(self) -> _Output:
        """Return the output, with runs of checks that were not decided at the end."""
        for runs in self._decoy_runs.values():
            self._output.add(b"".join(runs))
        return self._output


def _text(folder: AttemptFolder, excerpt: Excerpt) -> bytes:
    return excerpt.data if excerpt.blob is None else folder.blobs().get(excerpt.blob)
