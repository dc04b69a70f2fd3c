"""Data of one attempt: record, diff, output and findings, and its trace in parts that the page loads on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.schema import AttemptRecord
from agentbench.reports.card import review_lines
from agentbench.reports.html.bounded import bounded
from agentbench.reports.provenance import evidence
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.events import IntegrityFinding, MonitorAlert

DIFF_BYTES = 400_000
OUTPUT_BYTES = 16_000
PART_EVENTS = 2_000
PART_BYTES = 1_500_000
MAX_WHOLE_EVENT = 60_000
"""Larger events are truncated."""
EVENT_TEXT = 12_000
MAX_FINDINGS = 200
MAX_REVIEWS = 12
UNREADABLE = (
    '{"seq":0,"t":0,"type":"unreadable","actor":"harness","payload":{"why":"not a valid event; see ab verify"}}'
)
_FINDINGS = frozenset({IntegrityFinding.type, MonitorAlert.type})


@dataclass(slots=True)
class Trace:
    """What writing a trace counted and collected."""

    parts: int = 0
    events: int = 0
    note: str = ""
    findings: list[Json] = field(default_factory=list)
    """Integrity findings and monitor alerts with their event numbers."""


def detail(record: AttemptRecord, folder: Path, trace: Trace) -> dict[str, Json]:
    """Return everything about an attempt except its events."""
    return {
        "record": bounded(record.model_dump(mode="json")),
        "review": bounded(list(review_lines(record, folder))[:MAX_REVIEWS], text=500),
        "findings": list(trace.findings),
        "diff": _diff(record, folder),
        "output": _output(record, folder),
        "trace": {"parts": trace.parts, "events": trace.events, "note": trace.note},
    }


def _finding(payload: object) -> dict[str, Json]:
    if isinstance(payload, IntegrityFinding):
        return {
            "rule": payload.rule,
            "severity": payload.severity,
            "path": bounded(payload.path, text=500),
            "line": payload.line,
            "detail": bounded(payload.detail, text=2000),
            "excerpt": bounded(payload.excerpt, text=2000),
        }
    if isinstance(payload, MonitorAlert):
        return {
            "rule": payload.rule,
            "severity": payload.severity,
            "path": None,
            "line": None,
            "detail": bounded(payload.detail, text=2000),
            "excerpt": "",
        }
    return {}


def _diff(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    path = evidence(folder, record.patch.path) if record.patch else None
    data = _head(path, DIFF_BYTES)
    if path is None or data is None:
        return None
    size = path.stat().st_size
    return {"text": data.decode(errors="replace"), "bytes": size, "cut": size > DIFF_BYTES}


def _output(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    """Return the end of the checks' output, unless the attempt passed."""
    if record.result.passed or not record.artifact_paths.passing_stdout:
        return None
    path = evidence(folder, record.artifact_paths.passing_stdout)
    try:
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - OUTPUT_BYTES))
            text = file.read(OUTPUT_BYTES).decode(errors="replace")
    except OSError:
        return None
    return {"text": text, "cut": size > OUTPUT_BYTES} if text.strip() else None


def _head(path: Path | None, size: int) -> bytes | None:
    try:
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return None


# --- trace
# --------------------------------------------------------------------------------------------------------------


def trace_parts(record: AttemptRecord, folder: Path, trace: Trace) -> Iterator[str]:
    """Yield the events as JSON arrays of bounded size; counts and findings go to `trace`."""
    path = evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    if path is None or not path.is_file():
        return
    part: list[str] = []
    size = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                event = _event(raw[:-1], trace)
                part.append(event)
                size += len(event)
                trace.events += 1
                if len(part) == PART_EVENTS or size > PART_BYTES:
                    yield f"[{','.join(part)}]"
                    trace.parts += 1
                    part, size = [], 0
    except OSError as error:
        trace.note = f"the trace is incomplete: {error.strerror}"
    if part:
        yield f"[{','.join(part)}]"
        trace.parts += 1


def _event(raw: bytes, trace: Trace) -> str:
    """Return one event as JSON: the payload as logged, or truncated if it is large."""
    try:
        line = read_line(raw)
        if line.type in _FINDINGS and len(trace.findings) < MAX_FINDINGS:
            trace.findings.append({"seq": line.seq, **_finding(line.typed())})
        text = line.payload.decode()
        # An invalid payload would make the whole part unreadable.
        value = json.loads(text)
        if len(raw) > MAX_WHOLE_EVENT:
            text = json.dumps(bounded(value, text=EVENT_TEXT))
    except (BadLine, ValueError, RecursionError):
        return UNREADABLE
    return f'{{"seq":{line.seq},"t":{line.t},"type":"{line.type}","actor":"{line.actor}","payload":{text}}}'
