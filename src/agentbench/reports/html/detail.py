"""Data of one attempt: record, diff, output and findings, and its trace in parts that the page loads on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Outcome
from agentbench.core.regular_file import open_regular
from agentbench.core.text import without_terminal_codes
from agentbench.record.attempt_folder import EVENTS, TASK_FILE
from agentbench.record.schema import AttemptRecord
from agentbench.reports.card import review_lines
from agentbench.reports.card_evidence import read_evidence
from agentbench.reports.html.bounded import bounded
from agentbench.reports.provenance import evidence, read_text, task_document
from agentbench.reports.sources import Run
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.events import Briefing, IntegrityFinding, MonitorAlert

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
    briefing: str = ""
    findings: list[Json] = field(default_factory=list)
    """Integrity findings and monitor alerts with their event numbers."""


def detail(record: AttemptRecord, run: Run, trace: Trace) -> dict[str, Json]:
    """Return everything about an attempt except its events, and how it differs from what was sealed."""
    folder = run.path
    return {
        "altered": bounded(str(run.evidence_alteration(record) or ""), text=500),
        "record": bounded(record.model_dump(mode="json")),
        "review": review_json(record, folder),
        "findings": list(trace.findings),
        "diff": _diff(record, folder),
        "task": _task(record, folder, trace),
        "outputs": list(_outputs(record, folder)),
        "agent": list(_agent_output(record, folder)),
        "trace": {"parts": trace.parts, "events": trace.events, "note": trace.note},
    }


def review_json(record: AttemptRecord, folder: Path) -> Json:
    """Return why an attempt needs review."""
    return bounded(list(review_lines(record, folder))[:MAX_REVIEWS], text=500)


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


def _task(record: AttemptRecord, folder: Path, trace: Trace) -> dict[str, Json]:
    """Return title and statement of the task, or the agent's briefing if the statement is in another file."""
    task = task_document(read_text(evidence(folder, f"{record.artifact_paths.task_dir}/{TASK_FILE}")) or "")
    return {
        "title": bounded(str(task.get("title") or ""), text=300),
        "statement": bounded(str(task.get("statement") or trace.briefing), text=EVENT_TEXT),
    }


def _outputs(record: AttemptRecord, folder: Path) -> Iterator[Json]:
    """Yield what each check that did not pass printed; of checks with decoys only the failures of real tests."""
    from_trace = read_evidence(evidence(folder, f"{record.artifact_paths.task_dir}/{EVENTS}"))
    for check in record.checks:
        if check.outcome is Outcome.PASS:
            continue
        decoy_runs = from_trace.decoy_runs.get(check.id, 0)
        text = (from_trace.diagnostics if decoy_runs else from_trace.outputs).get(check.id, "")
        text = without_terminal_codes(text).rstrip().lstrip("\n")
        note = (
            f"Failures of real tests. {decoy_runs} runs mix real tests with decoys, which fail as expected; "
            f"their output is in {record.artifact_paths.checks_stdout or record.artifact_paths.passing_stdout}."
        )
        if text:
            yield {"check": check.id, "text": bounded(text, text=OUTPUT_BYTES), "note": note if decoy_runs else ""}


def _agent_output(record: AttemptRecord, folder: Path) -> Iterator[Json]:
    """Yield the end of stdout and stderr of a program that acted as the agent."""
    for stream in ("stdout", "stderr"):
        part = _read(folder, f"{record.artifact_paths.task_dir}/logs/agent_{stream}.txt", OUTPUT_BYTES, end=True)
        if part is not None and part[0].strip():
            text, size = part
            yield {"stream": stream, "text": without_terminal_codes(text), "cut": size > OUTPUT_BYTES}


def _read(folder: Path, name: str, max_bytes: int, *, end: bool = False) -> tuple[str, int] | None:
    """Return the beginning or the end of an evidence file and the size of all of it, or None if it cannot be read."""
    path = evidence(folder, name)
    try:
        if path is None or not path.is_file():
            return None
        with open_regular(path) as file:
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
        with open_regular(path) as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    break
                event = event_json(raw[:-1], trace)
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


def event_json(raw: bytes, trace: Trace) -> str:
    """Return one event as JSON: the payload as logged, or truncated if it is large."""
    try:
        line = read_line(raw)
        if line.type in _FINDINGS and len(trace.findings) < MAX_FINDINGS:
            trace.findings.append({"seq": line.seq, **_finding(line.typed())})
        text = line.payload.decode()
        # An invalid payload would make the whole part unreadable.
        value = json.loads(text)
        if line.type == Briefing.type and not trace.briefing:
            trace.briefing = str(value.get("text", ""))
        if len(raw) > MAX_WHOLE_EVENT:
            text = json.dumps(bounded(value, text=EVENT_TEXT))
    except (BadLine, ValueError, RecursionError):
        return UNREADABLE
    return f'{{"seq":{line.seq},"t":{line.t},"type":"{line.type}","actor":"{line.actor}","payload":{text}}}'
