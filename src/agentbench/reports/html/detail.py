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
    """Counts and findings collected while a trace is written."""

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
    if not isinstance(payload, IntegrityFinding | MonitorAlert):
        return {}
    place = payload if isinstance(payload, IntegrityFinding) else None
    return {
        "rule": payload.rule,
        "severity": payload.severity,
        "path": bounded(place.path, text=500) if place else None,
        "line": place.line if place else None,
        "detail": bounded(payload.detail, text=2000),
        "excerpt": bounded(place.excerpt, text=2000) if place else "",
    }


def _diff(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    if record.patch is None or (part := _read(folder, record.patch.path, DIFF_BYTES)) is None:
        return None
    text, size = part
    return {"text": text, "bytes": size, "cut": size > DIFF_BYTES}


def _output(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    """Return the end of the checks' output, unless the attempt passed."""
    path = record.artifact_paths.passing_stdout
    if record.result.passed or not path or (part := _read(folder, path, OUTPUT_BYTES, end=True)) is None:
        return None
    text, size = part
    return {"text": text, "cut": size > OUTPUT_BYTES} if text.strip() else None


def _read(folder: Path, name: str, max_bytes: int, *, end: bool = False) -> tuple[str, int] | None:
    """Return the beginning or the end of an evidence file and the size of all of it, or None if it cannot be read."""
    path = evidence(folder, name)
    try:
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - max_bytes) if end else 0)
            return file.read(max_bytes).decode(errors="replace"), size
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
