"""Write a run for SWE-bench: predictions (`.jsonl`) with the graded patches, or a report (`.json`) as its harness writes one."""

from __future__ import annotations

from pathlib import Path

from agentbench.authoring.formats.swebench import is_decided, report
from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import InputError
from agentbench.exchange.attempt_trace import AttemptTrace
from agentbench.exchange.output_file import json_bytes, output_file
from agentbench.exchange.registry import Written
from agentbench.exchange.source_run import SourceRun
from agentbench.execution.predictions import INSTANCES
from agentbench.record.attempt_folder import FINAL_PATCH, content
from agentbench.reports.number_format import plural


def write(run: SourceRun, out: str) -> Written:
    """Write predictions or a report; the suffix of `out` chooses."""
    suffix = Path(out).suffix.lower()
    if suffix == ".jsonl":
        return _write_predictions(run, out)
    if suffix == ".json":
        return _write_report(run, out)
    raise InputError(f"--out {out}: SWE-bench predictions end in .jsonl, a report in .json")


def _write_predictions(run: SourceRun, out: str) -> Written:
    written = undecided = missing = repeated = 0
    with output_file(out) as file:
        for trace in run.traces():
            record = trace.record
            if not is_decided(record):
                undecided += 1
                continue
            patch = _graded_patch(run.folder(record), trace)
            if patch is None:
                missing += 1
                continue
            repeated += record.repeat > 1
            written += 1
            prediction = {
                "instance_id": record.task_id,
                "model_name_or_path": record.variant,
                "model_patch": patch,
            }
            file.write(json_bytes(prediction) + b"\n")
        size = file.tell()
    notes = _undecided(undecided)
    if missing:
        notes.append(f"left out {plural(missing, 'attempt')}: the graded patch is not in the evidence")
    if repeated:
        notes.append(f"later repeats: {plural(repeated, 'prediction')}; SWE-bench's harness accepts one per instance")
    return Written(written, size, notes=tuple(notes))


def _graded_patch(folder: Path, trace: AttemptTrace) -> str | None:
    """Return the graded patch; None if the evidence has no patch, or another text (withheld or redacted) instead of it."""
    data = content(folder / FINAL_PATCH)
    if data is None or trace.patch is None or sha256_hex(data) != trace.patch.graded_sha256:
        return None
    return data.decode("utf-8", "surrogateescape")


def _write_report(run: SourceRun, out: str) -> Written:
    records = list(run.records())
    planned = run.run.meta.get(INSTANCES) or run.run.meta.get("tasks")
    tasks = [str(task) for task in planned] if isinstance(planned, list) else [record.task_id for record in records]
    text = json_bytes(report(records, tasks)) + b"\n"
    with output_file(out) as file:
        file.write(text)
    decided = sum(map(is_decided, records))
    return Written(decided, len(text), notes=tuple(_undecided(len(records) - decided)))


def _undecided(attempts: int) -> list[str]:
    return [f"left out {plural(attempts, 'attempt')} without a decision"] if attempts else []
