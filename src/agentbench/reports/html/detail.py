"""One attempt for the page: record, diff, output, findings, and its trace in parts that are loaded when somebody looks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.errors import RecordError
from agentbench.record.folder import EVENTS
from agentbench.record.schema import AttemptRecord
from agentbench.reports.card import review_lines
from agentbench.reports.html.bounded import bounded
from agentbench.reports.provenance import evidence
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.events import IntegrityFinding, MonitorAlert
from agentbench.trace.log import read_events

DIFF_BYTES = 400_000
OUTPUT_BYTES = 16_000
PART_EVENTS = 2_000
PART_BYTES = 1_500_000
WHOLE_EVENT = 60_000
"""An event up to this many bytes is carried as it is."""
EVENT_TEXT = 12_000
MOST_FINDINGS = 200
_FINDINGS = frozenset({IntegrityFinding.type, MonitorAlert.type})


@dataclass(frozen=True, slots=True)
class Trace:
    parts: int
    events: int
    note: str = ""


def detail(record: AttemptRecord, folder: Path, trace: Trace) -> dict[str, Json]:
    """Everything about an attempt but its events."""
    return {
        "record": bounded(record.model_dump(mode="json")),
        "review": bounded(list(review_lines(record, folder)), text=500),
        "findings": findings(record, folder),
        "diff": _diff(record, folder),
        "output": _output(record, folder),
        "trace": {"parts": trace.parts, "events": trace.events, "note": trace.note},
    }


def findings(record: AttemptRecord, folder: Path) -> list[Json]:
    """What the inspection of Δ and the monitors found, with the events that say so."""
    path = evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}")
    found: list[Json] = []
    if path is None or not path.is_file():
        return found
    try:
        for event in read_events(path, types=_FINDINGS):
            if len(found) == MOST_FINDINGS:
                break
            found.append({"seq": event.seq, **_told(event.payload)})
    except RecordError:
        return found
    return found


def _told(payload: object) -> dict[str, Json]:
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
        told = bounded(payload.detail, text=2000)
        return {
            "rule": payload.rule,
            "severity": payload.severity,
            "path": None,
            "line": None,
            "detail": told,
            "excerpt": "",
        }
    return {}


def _diff(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    path = evidence(folder, record.patch.path) if record.patch else None
    data = _beginning(path, DIFF_BYTES)
    if path is None or data is None:
        return None
    size = path.stat().st_size
    return {"text": data.decode(errors="replace"), "bytes": size, "cut": size > DIFF_BYTES}


def _output(record: AttemptRecord, folder: Path) -> dict[str, Json] | None:
    """The end of what the checks printed; there only when they did not all pass."""
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


def _beginning(path: Path | None, most: int) -> bytes | None:
    try:
        if path is None or not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return None


# --- trace --------------------------------------------------------------------------------------------------------------


def trace_parts(record: AttemptRecord, folder: Path) -> Iterator[tuple[str, int]]:
    """The events as JSON arrays of bounded size, each with its number of events."""
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
                event = _event(raw[:-1])
                part.append(event)
                size += len(event)
                if len(part) == PART_EVENTS or size > PART_BYTES:
                    yield f"[{','.join(part)}]", len(part)
                    part, size = [], 0
    except OSError:
        return
    if part:
        yield f"[{','.join(part)}]", len(part)


def _event(raw: bytes) -> str:
    """One event as the page reads it: the payload as it stands in the log, or cut when it is large."""
    try:
        line = read_line(raw)
        text = line.payload.decode()
        if len(raw) > WHOLE_EVENT:
            text = json.dumps(bounded(json.loads(text), text=EVENT_TEXT))
        # What an agent wrote may look like JSON and not be: the page must be able to read the rest.
        json.loads(text)
    except (BadLine, ValueError, RecursionError):
        return '{"seq":0,"t":0,"type":"unreadable","actor":"harness","payload":{"why":"not an event; ab verify says more"}}'
    return f'{{"seq":{line.seq},"t":{line.t},"type":"{line.type}","actor":"{line.actor}","payload":{text}}}'
