"""Deletes bulky evidence from a finished run.

The minimal evidence stays: records, chains, manifests, graded patches and the digests of everything else, which verdicts and
comparisons depend on. Blobs, logs, per-step patches, copies of trees and the files for a replay are deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import now_iso
from agentbench.record.attempt_folder import (
    EVENTS,
    FILES,
    FINAL_PATCH,
    MANIFEST,
    NOT_EVIDENCE,
    ORIGINALS,
    RECORD,
    TASK_FILE,
    WORKSPACE,
    attempt_path,
    evidence_files,
)
from agentbench.trace.events import AttemptSealed, RunClosed, RunReduced
from agentbench.trace.log import EventLog, read_events

MINIMAL = frozenset({TASK_FILE, MANIFEST, EVENTS, FINAL_PATCH, RECORD, ORIGINALS, FILES})


@dataclass(frozen=True, slots=True)
class Reduction:
    """Number and size of the files that are deleted."""

    files: int
    bytes: int
    earlier: RunReduced | None = None
    """The approval of an earlier deletion, if it left nothing to delete."""


def reducible(name: str) -> bool:
    """Return whether a file of an attempt is not part of the minimal evidence."""
    return name not in MINIMAL


def plan_reduction(run: Path) -> Reduction:
    """Return how much `reduce_run` would delete.

    Raises:
        RecordError: the run cannot be read.
    """
    sizes = [path.lstat().st_size for path in _deletable_files(run)]
    return Reduction(len(sizes), sum(sizes))


def closing_time(run: Path) -> datetime | None:
    """Return when a run was closed, or None if it is not.

    Raises:
        RecordError: the run cannot be read.
    """
    last = [event.payload for event in read_events(run / EVENTS) if not isinstance(event.payload, RunReduced)][-1:]
    if not last or not isinstance(last[0], RunClosed):
        return None
    try:
        return datetime.fromisoformat(last[0].closed_at)
    except ValueError:
        raise RecordError(f"{run / EVENTS}: closed_at {last[0].closed_at!r} is not a time") from None


def reduce_run(run: Path, *, approved_by: str, reason: str) -> Reduction:
    """Delete bulky evidence of a closed run. It is logged first, so that an interrupted call can be repeated.

    If there is nothing to delete, nothing is logged either: an earlier approval stands.

    Raises:
        InputError: the run has not ended, or another process writes it.
        RecordError: the run cannot be read or written.
    """
    reduction = plan_reduction(run)
    log, torn = EventLog.reopen(run / EVENTS)
    with log:
        last = [event.payload for event in read_events(run / EVENTS)][-1:]
        if torn or not last or not isinstance(last[0], RunClosed | RunReduced):
            raise InputError(f"{run} has not ended", remedy="finish it with `ab run --resume`")
        if not reduction.files:
            return replace(reduction, earlier=last[0] if isinstance(last[0], RunReduced) else None)
        log.append(
            RunReduced(
                approved_by=approved_by,
                reason=reason,
                reduced_at=now_iso(),
                files=reduction.files,
                bytes=reduction.bytes,
            ),
            "operator",
        )
        log.sync()
        _remove(run)
    return reduction


def _remove(run: Path) -> None:
    try:
        for path in list(_deletable_files(run)):
            path.unlink()
        for folder in _attempt_folders(run):
            for name in NOT_EVIDENCE:
                shutil.rmtree(folder / name, ignore_errors=True)
            for subfolder in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):
                if not any(subfolder.iterdir()):
                    subfolder.rmdir()
    except OSError as error:
        raise RecordError.of("remove", Path(error.filename or run), error) from error


def _deletable_files(run: Path) -> Iterator[Path]:
    for folder in _attempt_folders(run):
        yield from (folder / name for name in evidence_files(folder) if reducible(name))
        for base, folders, files in os.walk(folder / WORKSPACE):
            links = (name for name in folders if Path(base, name).is_symlink())
            yield from (Path(base, name) for name in (*files, *links))


def _attempt_folders(run: Path) -> Iterator[Path]:
    for event in read_events(run / EVENTS, types={AttemptSealed.type}):
        if isinstance(event.payload, AttemptSealed):
            folder = attempt_path(run, event.payload.task_dir)
            if folder.is_symlink() or not folder.is_dir():
                raise RecordError(f"{folder} is not an attempt folder")
            yield folder
