"""The run that is exported: its records and the evidence of each attempt, compared with their seals when it is opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from agentbench.contract.schema import SLUG
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.exchange.attempt_trace import AttemptTrace, read_trace
from agentbench.record.schema import AttemptRecord
from agentbench.reports.provenance import evidence
from agentbench.reports.record_rows import read_records
from agentbench.reports.sources import Run, open_run

VERIFY = "run `ab verify` for details"


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run whose records and evidence match their seals."""

    run: Run

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def state(self) -> str:
        """The end of the run: `closed`, `open` (running or interrupted) or `not sealed` (imported)."""
        if self.run.seals is None:
            return "not sealed"
        return "closed" if self.run.seals.closed else "open"

    def meta(self, key: str) -> str:
        value = self.run.meta.get(key)
        return "" if value is None else str(value)

    def records(self) -> Iterator[AttemptRecord]:
        """Yield the final records, one at a time. Their ids can be names of files.

        Raises:
            InputError: an id cannot.
        """
        for record in read_records(self.path, self.run.rows):
            for name in (record.task_id, record.attempt_id):
                if not re.fullmatch(SLUG, name):
                    raise InputError(f"{self.path}: {name[:200]!r} is not an id")
            yield record

    def traces(self) -> Iterator[AttemptTrace]:
        """Yield the final attempts with their evidence, one at a time."""
        return map(self._trace, self.records())

    def provenance(self) -> dict[str, Json]:
        """Return where the exported data comes from, for the metadata of an export."""
        return {
            "run_id": self.run.run_id,
            "run": self.path.name,
            "suite": self.run.suite,
            "variant": self.meta("variant"),
            "harness_version": self.meta("harness_version"),
            "state": self.state,
            "evidence": _json(self.run.meta.get("evidence")),
            "imported": _json(self.run.meta.get("imported")),
        }

    def folder(self, record: AttemptRecord) -> Path:
        """Return the folder of an attempt.

        Raises:
            InputError: the record names a folder outside of the run.
        """
        folder = evidence(self.path, record.artifact_paths.task_dir)
        if folder is None:
            raise InputError(f"{self.path}: the folder of attempt {record.attempt_id} is outside of the run")
        return folder

    def _trace(self, record: AttemptRecord) -> AttemptTrace:
        return read_trace(self.folder(record), record)


def open_source(path: Path) -> SourceRun:
    """Open a run for export.

    Raises:
        InputError: not a run directory, it has no attempts, or its records or evidence were altered.
    """
    run = open_run(path)
    if not run.altered:
        run = run.with_audit(read_records(path, run.rows))
    if run.altered:
        raise InputError(f"{path} does not verify: {run.altered[0]}", remedy=VERIFY)
    if not run.rows:
        raise InputError(f"{path} has no attempts")
    return SourceRun(run)


def _json(value: object) -> Json:
    return value if isinstance(value, (dict, str)) else None
