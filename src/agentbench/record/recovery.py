"""Recovers attempts after a crash: a closed chain means the attempt ended, even without a line in `attempts.jsonl`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from agentbench.core.canonical import CanonicalError, parse_canonical, sha256_hex
from agentbench.core.errors import RecordError
from agentbench.record.attempt_folder import EVENTS, RECORD, AttemptFolder
from agentbench.record.durable import failed
from agentbench.record.schema import AttemptRecord
from agentbench.trace.events import AttemptClosed
from agentbench.trace.log import read_events, tail


@dataclass(frozen=True, slots=True)
class ClosedAttempt:
    """A finished attempt: its record and the length of its chain."""

    record: AttemptRecord
    events: int
    files_sha256: str | None = None
    """Digest of the list of evidence files; None if it must be computed again."""


def closed_attempt(folder: AttemptFolder) -> ClosedAttempt | None:
    """Read a finished attempt from its chain and `meta/record.json`; None if the chain is not closed.

    Raises:
        RecordError: the chain is broken, or its record is missing.
    """
    path = folder.path / EVENTS
    if not path.exists():
        return None
    end = tail(path)
    closing = None
    for event in read_events(path, types={AttemptClosed.type}):
        if isinstance(event.payload, AttemptClosed) and event.seq == end.count:
            closing = event.payload
    if closing is None:
        return None
    try:
        body = (folder.path / RECORD).read_bytes()
    except OSError as error:
        raise failed("read", folder.path / RECORD, error) from error
    if sha256_hex(body) != closing.record_sha256:
        raise RecordError(f"{folder.path / RECORD} differs from the record that the attempt was closed with")
    try:
        value = parse_canonical(body)
        record = AttemptRecord.model_validate({**value, "trace_head": end.head} if isinstance(value, dict) else value)
    except (CanonicalError, ValidationError) as error:
        raise RecordError(f"{folder.path / RECORD} is not a record: {str(error).splitlines()[0]}") from error
    return ClosedAttempt(record, end.count)
