"""Write the evidence files that people open first: logs, conversation, tool calls, diffs, timings. All derive from the events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from agentbench.acceptance.validation import Baseline
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import RecordError
from agentbench.record.attempt_folder import MANIFEST, AttemptFolder
from agentbench.record.manifest import read_manifest
from agentbench.record.schema import ArtifactPaths
from agentbench.sandbox.protocol import SetupStep
from agentbench.trace.events import (
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


def write_evidence(
    folder: AttemptFolder, task: LoadedTask, log: Path, steps: Sequence[SetupStep], baseline: Baseline | None
) -> ArtifactPaths:
    """Write the evidence files of an attempt. Return the paths that its record names."""
    folder.write("task.yaml", task.text)
    if steps:
        folder.write("logs/setup_stdout.txt", _setup_log(steps, "stdout"))
        folder.write("logs/setup_stderr.txt", _setup_log(steps, "stderr"))
    failing = None
    if baseline is not None:
        failing = folder.write("logs/failing_stdout.txt", baseline.stdout)
        folder.write("logs/failing_stderr.txt", baseline.stderr)
    _write_environment(folder)
    _write_conversation(folder, log)
    passing = _from_events(folder, log)
    return ArtifactPaths(task_dir=folder.task_dir, failing_stdout=failing, passing_stdout=passing)


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
    folder.write("meta/environment.json", json.dumps(value, indent=2))


def _write_conversation(folder: AttemptFolder, log: Path) -> None:
    events = read_events(log, types={LlmRequest.type, LlmResponse.type})
    first = next(events, None)
    if first is None:
        return
    from agentbench.run.attempt.conversation import conversation  # noqa: PLC0415 - a given patch has no conversation

    lines = conversation(chain([first], events), folder.blobs())
    if lines:
        folder.write("agent/conversation.jsonl", lines)


def _setup_log(steps: Sequence[SetupStep], stream: str) -> bytes:
    return b"".join(b"$ %s\n%s\n" % (step.command.encode(), getattr(step, stream)) for step in steps)


def _from_events(folder: AttemptFolder, log: Path) -> str | None:
    """Write tool calls, step diffs, output of checks and timings in one pass over the log."""
    calls: list[bytes] = []
    stdout: list[bytes] = []
    stderr: list[bytes] = []
    timings: dict[str, int] = {}
    commands: dict[str, str] = {}
    first = last = 0
    diffs = 0
    for event in read_events(log):
        first, last = first or event.t, event.t
        match event.payload:
            case ToolCallStarted() | ToolCallFinished():
                line = {"seq": event.seq, "type": event.type, **event.payload.model_dump(mode="json")}
                calls.append(json.dumps(line, ensure_ascii=True).encode() + b"\n")
            case WorkspaceMutated(diff=diff) | PatchApplied(diff=diff) if diff.total_bytes:
                diffs += 1
                folder.write(f"diffs/step_{diffs:04}.patch", _text(folder, diff))
            case TestsStarted():
                commands[event.payload.step] = event.payload.command
            case TestsFinished():
                step = event.payload.step
                header = f"$ {commands.get(step, '')}\n[{step}: {event.payload.why}]\n"
                stdout.append(header.encode("utf-8", "backslashreplace"))
                # A check that was decided over several runs repeats the output of its first run, which is written already.
                if not any(other.startswith(f"{step}~") for other in timings):
                    stdout.append(_text(folder, event.payload.stdout) + b"\n")
                    stderr.append(_text(folder, event.payload.stderr) + b"\n")
                timings[step] = event.payload.duration_us
            case _:
                pass
    if calls:
        folder.write("agent/tool_calls.jsonl", b"".join(calls))
    folder.write("meta/timings.json", json.dumps({"total_us": last - first, "checks_us": timings}, indent=2))
    if not stdout:
        return None
    folder.write("logs/passing_stderr.txt", b"".join(stderr))
    return folder.write("logs/passing_stdout.txt", b"".join(stdout))


def _text(folder: AttemptFolder, excerpt: Excerpt) -> bytes:
    return excerpt.data if excerpt.blob is None else folder.blobs().get(excerpt.blob)
