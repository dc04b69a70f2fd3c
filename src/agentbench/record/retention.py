"""Two tiers of evidence (E-11): all of it, and the little that is kept for long.

Minimal evidence is what verdicts and comparisons stand on: records, chains, manifests, the graded patches and the digests of everything else. What goes is
what the agent and the checks wrote at length: blobs, logs, the patches of single steps, copies of trees, what a replay needs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import now_iso
from agentbench.record.attempt_folder import EVENTS, FILES, FINAL_PATCH, MANIFEST, NOT_EVIDENCE, RECORD, evidence_files
from agentbench.record.durable import failed
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.run_events import AttemptSealed, RunClosed, RunReduced

MINIMAL = frozenset({"task.yaml", MANIFEST, EVENTS, FINAL_PATCH, RECORD, FILES})


@dataclass(frozen=True, slots=True)
class Reduction:
    """What goes."""

    files: int
    bytes: int


def reducible(name: str) -> bool:
    """Whether a file of an attempt is more than minimal evidence."""
    return name not in MINIMAL


def what_goes(run: Path) -> Reduction:
    """
    Raises:
        RecordError: the run cannot be read.
    """
    sizes = [path.stat().st_size for path in _beyond_minimal(run)]
    return Reduction(len(sizes), sum(sizes))


def reduce_run(run: Path, *, approved_by: str, reason: str) -> Reduction:
    """Keep minimal evidence of a closed run. Written down first, so that one broken off is finished by calling again.

    Raises:
        InputError: the run has not ended, or another process writes it.
        RecordError: it cannot be read or written.
    """
    goes = what_goes(run)
    log, torn = EventLog.reopen(run / EVENTS)
    with log:
        last = [event.payload for event in read_events(run / EVENTS)][-1:]
        if torn or not last or not isinstance(last[0], RunClosed | RunReduced):
            msg = f"{run} has not ended"
            raise InputError(msg, remedy="`ab run --resume` ends it")
        if isinstance(last[0], RunReduced) and not goes.files:
            return goes  # Nothing is left to approve: who approved it, and of how much, stays as it was said.
        log.append(
            RunReduced(
                approved_by=approved_by, reason=reason, reduced_at=now_iso(), files=goes.files, bytes=goes.bytes
            ),
            "operator",
        )
        log.sync()
        _remove(run)
    return goes


def _remove(run: Path) -> None:
    try:
        for path in list(_beyond_minimal(run)):
            path.unlink()
        for folder in _folders(run):
            for name in NOT_EVIDENCE:
                shutil.rmtree(folder / name, ignore_errors=True)
            for empty in sorted((one for one in folder.rglob("*") if one.is_dir()), reverse=True):
                if not any(empty.iterdir()):
                    empty.rmdir()
    except OSError as error:
        raise failed("remove", Path(error.filename or run), error) from error


def _beyond_minimal(run: Path) -> Iterator[Path]:
    for folder in _folders(run):
        yield from (folder / name for name in evidence_files(folder) if reducible(name))


def _folders(run: Path) -> Iterator[Path]:
    for event in read_events(run / EVENTS, types={AttemptSealed.type}):
        if isinstance(event.payload, AttemptSealed):
            folder = run / event.payload.task_dir
            if folder.is_symlink() or not folder.is_dir():
                msg = f"{folder} is not an attempt's folder"
                raise RecordError(msg)
            yield folder
