"""Closes attempts: seals an attempt in its folder, and reads a closed one back after a crash or from another machine.

Sealing needs nothing else of the run. A closed chain means that the attempt ended, even without a line in `attempts.jsonl`.
"""

from __future__ import annotations

from pydantic import ValidationError

from agentbench.core.canonical import CanonicalError, parse_canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.record.attempt_folder import EVENTS, RECORD, AttemptFolder
from agentbench.record.durable import write_atomic
from agentbench.record.schema import AttemptRecord, sealed_body
from agentbench.trace.chain import BadLine
from agentbench.trace.json_safe import field_names, to_json
from agentbench.trace.log import EventLog, tail
from agentbench.trace.redaction import Redactor


@dataclass(frozen=True, slots=True)
class ClosedAttempt:
    """A finished attempt: its record and the length of its chain."""

    record: AttemptRecord
    events: int
    files_sha256: str | None = None
    """Digest of the list of evidence files; None if it must be computed again."""
    record_sha256: str | None = None
    """Digest of the record without its seals; None if it must be computed."""


def close_attempt(folder: AttemptFolder, log: EventLog, record: AttemptRecord) -> ClosedAttempt:
    """Write the record, seal the evidence files, close the chain. Nothing may be written to the folder afterwards.

    Raises:
        RecordError: a file cannot be written.
    """
    record = _redacted(record, folder.redact).model_copy(update={"final": True, "trace_head": None})
    body = sealed_body(record)
    write_atomic(folder.path / RECORD, body)
    folder.write_originals()
    files_sha256 = folder.seal_files()
    record_sha256 = sha256_hex(body)
    head = log.close(record_sha256)
    return ClosedAttempt(record.model_copy(update={"trace_head": head}), log.count, files_sha256, record_sha256)


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


def closed_attempt(folder: AttemptFolder) -> ClosedAttempt | None:
    """Read a finished attempt from its chain and `meta/record.json`; None if the chain is not closed.

    Raises:
        RecordError: the chain is broken, or its record is missing.
    """
    path = folder.path / EVENTS
    if not path.exists():
        return None
    end = tail(path)
    try:
        closing = end.closing()
    except BadLine as error:
        raise RecordError(f"{path}:{end.count}: {error}") from None
    if closing is None:
        return None
    try:
        body = (folder.path / RECORD).read_bytes()
    except OSError as error:
        raise RecordError.of("read", folder.path / RECORD, error) from error
    if sha256_hex(body) != closing.record_sha256:
        raise RecordError(f"{folder.path / RECORD} differs from the record that the attempt was closed with")
    try:
        value = parse_canonical(body)
        record = AttemptRecord.model_validate({**value, "trace_head": end.head} if isinstance(value, dict) else value)
    except (CanonicalError, ValidationError) as error:
        raise RecordError(f"{folder.path / RECORD} is not a record: {str(error).splitlines()[0]}") from error
    return ClosedAttempt(record, end.count, record_sha256=closing.record_sha256)
