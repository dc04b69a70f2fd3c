"""Data of runs for the page: the same JSON that a static report embeds, cached until the files of a run change."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.record.attempt_folder import NOT_EVIDENCE, entries_below
from agentbench.record.schema import AttemptRecord
from agentbench.reports.html.detail import Trace, detail, trace_parts
from agentbench.reports.html.page import page_data
from agentbench.reports.provenance import evidence
from agentbench.reports.sources import Run, open_run, open_sides
from agentbench.view.index import Entry, signature

if TYPE_CHECKING:
    from agentbench.reports.paired import PairedReport

MAX_ATTEMPTS = 5_000
"""Attempts of one page; the explorer has all of them."""
CACHED_BYTES = 12_000_000
CACHED_RUNS = 4
CACHED_ROWS = 20_000


@dataclass
class BoundedCache:
    """Texts by key; the ones that were not used for the longest time are dropped first."""

    max_bytes: int
    _texts: OrderedDict[Hashable, str] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> str | None:
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
            return self._texts.get(key)

    def put(self, key: Hashable, text: str) -> None:
        with self._lock:
            self._bytes += len(text) - len(self._texts.pop(key, ""))
            self._texts[key] = text
            while self._bytes > self.max_bytes and len(self._texts) > 1:
                self._bytes -= len(self._texts.popitem(last=False)[1])


@dataclass
class RunPages:
    """Reads what the page shows of runs and attempts."""

    _texts: BoundedCache = field(default_factory=lambda: BoundedCache(CACHED_BYTES))
    _runs: OrderedDict[str, tuple[Hashable, Run]] = field(default_factory=OrderedDict)
    _opened: OrderedDict[tuple[str, str], str] = field(default_factory=OrderedDict)
    """The state of the files of attempts when they were opened."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, entry: Entry) -> Run:
        """Open a run, or return it from the cache if its files have not changed."""
        current = signature(entry.path)
        with self._lock:
            cached = self._runs.get(entry.key)
            if cached is not None and cached[0] == current:
                self._runs.move_to_end(entry.key)
                return cached[1]
        run = open_run(entry.path)
        with self._lock:
            self._runs.pop(entry.key, None)
            if len(run.rows) <= CACHED_ROWS:
                self._runs[entry.key] = current, run
            while len(self._runs) > CACHED_RUNS:
                self._runs.popitem(last=False)
        return run

    def run_page(self, entry: Entry) -> str:
        """Return the page of one run."""
        key = ("run", entry.key, signature(entry.path))
        return self._cached(key, lambda: _page([self.run(entry)], [entry.key]))

    def comparison_page(self, a: Entry, b: Entry) -> str:
        """Return the page of two runs with their paired comparison.

        Raises:
            InputError: they are the same run, or have several variants.
        """
        key = ("compare", a.key, b.key, signature(a.path), signature(b.path))

        def make() -> dict[str, object]:
            from agentbench.reports.paired import compare_sides  # noqa: PLC0415 - needs numpy

            side_a, side_b = open_sides(str(a.path), str(b.path))
            runs = [side.run for side in (side_a, side_b) if side.run is not None]
            report = compare_sides(side_a, side_b)
            return _page(runs, [a.key, b.key], report)

        return self._cached(key, make)

    def record(self, entry: Entry, attempt_id: str) -> tuple[Run, AttemptRecord]:
        """Return the final record of an attempt.

        Raises:
            InputError: the run has no such finished attempt.
        """
        run = self.run(entry)
        for row in run.rows:
            if row.attempt_id == attempt_id:
                return run, run.records([row])[0]
        raise InputError("no such finished attempt in this run")

    def attempt(self, entry: Entry, attempt_id: str) -> str:
        """Return everything about an attempt except its events."""
        run, record = self.record(entry, attempt_id)
        state = _evidence_state(evidence(run.path, record.artifact_paths.task_dir) or run.path)
        key = ("attempt", entry.key, attempt_id, signature(entry.path), state)
        text = self._texts.get(key)
        if text is None:
            trace = Trace()
            for number, part in enumerate(trace_parts(record, run.path, trace)):
                self._texts.put(("trace", entry.key, attempt_id, state, number), part)
            text = _dump(detail(record, run, trace))
            self._texts.put(key, text)
        with self._lock:
            self._opened[entry.key, attempt_id] = state
            while len(self._opened) > CACHED_ROWS:
                self._opened.popitem(last=False)
        return text

    def trace_part(self, entry: Entry, attempt_id: str, number: int) -> str:
        """Return one part of the events of an attempt.

        Raises:
            InputError: there is no such part, or the files are not those that were compared with their seals when the
                attempt was opened.
        """
        run, record = self.record(entry, attempt_id)
        state = _evidence_state(evidence(run.path, record.artifact_paths.task_dir) or run.path)
        with self._lock:
            opened = self._opened.get((entry.key, attempt_id), state)
        if opened != state:
            raise InputError("the files of this attempt have changed since it was opened", remedy="reload the page")
        text = self._texts.get(("trace", entry.key, attempt_id, state, number))
        if text is not None:
            return text
        for position, part in enumerate(trace_parts(record, run.path, Trace())):
            if position == number:
                self._texts.put(("trace", entry.key, attempt_id, state, number), part)
                return part
        raise InputError("no such part of the trace")

    def _cached(self, key: Hashable, make: Callable[[], dict[str, object]]) -> str:
        text = self._texts.get(key)
        if text is None:
            text = _dump(make())
            self._texts.put(key, text)
        return text


def _page(runs: Sequence[Run], keys: list[str], comparison: PairedReport | None = None) -> dict[str, object]:
    """Return the data of a page. A browser may keep that of closed runs for a moment; others change."""
    closed = all(run.seals is None or run.seals.closed for run in runs)
    return {**page_data(runs, comparison=comparison, max_attempts=MAX_ATTEMPTS), "keys": keys, "closed": closed}


def _dump(value: object) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _evidence_state(folder: Path) -> str:
    """Return a digest of the names, sizes and times of an attempt's files. No program can set the time of a change."""
    state = hashlib.sha256()
    try:
        for name, entry in entries_below(folder, without=NOT_EVIDENCE):
            status = entry.stat(follow_symlinks=False)
            state.update(
                f"{name}\0{status.st_ino} {status.st_size} {status.st_ctime_ns}\0".encode(errors="surrogateescape")
            )
    except OSError as error:
        state.update(type(error).__name__.encode())
    return state.hexdigest()
