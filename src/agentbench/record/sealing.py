"""Seals an attempt in its own folder. It needs nothing else of the run, so it can happen on another machine."""

from __future__ import annotations

from agentbench.core.canonical import CanonicalError, sha256_hex
from agentbench.record.attempt_folder import RECORD, AttemptFolder
from agentbench.record.durable import write_atomic
from agentbench.record.recovery import ClosedAttempt
from agentbench.record.schema import AttemptRecord, sealed_body
from agentbench.trace.json_safe import field_names, to_json
from agentbench.trace.log import EventLog
from agentbench.trace.redaction import Redactor


def close_attempt(folder: AttemptFolder, log: EventLog, record: AttemptRecord) -> ClosedAttempt:
    """Write the record, seal the evidence files, close the chain. Nothing may be written to the folder afterwards.

    Raises:
        RecordError: a file cannot be written.
    """
    record = _redacted(record, folder.redact).model_copy(update={"final": True, "trace_head": None})
    body = sealed_body(record)
    write_atomic(folder.path / RECORD, body)
    files_sha256 = folder.seal_files()
    head = log.close(sha256_hex(body))
    return ClosedAttempt(record.model_copy(update={"trace_head": head}), log.count, files_sha256)


def _redacted(record: AttemptRecord, redact: Redactor | None) -> AttemptRecord:
    """Return the record without secrets and without text that is not valid UTF-8."""
    try:
        line = record.line()
    except CanonicalError:
        pass
    else:
        if redact is None or not redact.suspects(line.decode()):
            return record
    return AttemptRecord.model_validate(to_json(record.model_dump(mode="json"), redact, field_names(AttemptRecord)))
