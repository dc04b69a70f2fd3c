"""The list of runs: one short entry per run, read again only when its files have changed.

A scan costs a few `stat` calls per run. Records of new and changed runs are read by one background thread, newest run first, which
ends when nothing is left to read: a view without an open page does nothing.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, InputError
from agentbench.policy.prices import MICRO
from agentbench.record.attempt_folder import EVENTS
from agentbench.record.naming import ADJUDICATIONS, ATTEMPTS, RUN_JSON
from agentbench.record.run_directory import RunDirectory
from agentbench.record.run_state import IMPORTED_ID, run_state
from agentbench.record.seals import SealCheck
from agentbench.reports.adjudications import Adjudication, read_adjudications, to_review
from agentbench.reports.html.bounded import bounded
from agentbench.reports.missing_results import listed_state, missing_results
from agentbench.reports.record_rows import Row, read_rows, trial_of, unsealed_attempts
from agentbench.reports.seal_marks import SealMarks
from agentbench.statistics.trials import Rate
from agentbench.view.progress import RunProgress
from agentbench.view.roots import Folder, Found, Roots
from agentbench.view.tail import open_regular

MAX_RUN_JSON = 32 * 1024 * 1024
MAX_RECORDS = 1024 * 1024 * 1024
"""Larger files of records are not read: `ab report` reads them."""
RESCAN_SEC = 0.4
"""Requests within this time share one scan."""
FIRST_RUNS = 50
FIRST_SEC = 0.4
"""A list waits this long for the counts of the newest runs."""
LOCK_SEC = 1.0
"""A run that does not change is asked this often whether a process still writes it."""
REREAD_FACTOR = 5
"""A growing run is read again after this many times the duration of the last reading."""

SHOWN_META = ("run_id", "study_id", "suite", "variant", "model", "created_at", "retry_of")

Signature = tuple[int, ...]
OnRows = Callable[[str, Path, Mapping[str, Json], Sequence[Row], str], None]
"""Called with the key, folder, metadata and final rows of a run that was read, and with what was altered first in it, or how many attempts have no seal."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of final attempts, and costs."""

    attempts: int = 0
    passed: int = 0
    not_passed: int = 0
    not_counted: int = 0
    """Attempts outside the contract rate."""
    flagged: int = 0
    needs_review: int = 0
    """Flagged attempts without an adjudication."""
    spent: float = 0.0
    """Cost of final and superseded attempts."""
    superseded_spent: float = 0.0
    """The part of `spent` that superseded attempts cost."""
    unit: str = ""
    unknown_costs: int = 0
    """Attempts whose cost is unknown; `spent` leaves them out."""
    suites: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    seconds: float = 0.0
    """Sum of the durations of attempts."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of the list."""

    key: str
    path: Path
    meta: Mapping[str, Json]
    """The members of `run.json` that are shown."""
    signature: Signature
    planned: int | None = None
    """Attempts that the run should have."""
    cap: float | None = None
    counts: Counts | None = None
    """None until the records are read."""
    state: str = ""
    problem: str = ""
    read_sec: float = 0.0
    read_at: float = -1e9
    state_at: float = 0.0
    """When the state was last read."""
    refused: bool = False
    """True if nothing of the run may be opened; `problem` says why."""
    altered: str = ""
    """What was altered first in the records; empty if they match their seals."""
    unsealed: str = ""
    """How many attempts of a run that is not being made have no seal; empty if all have one, or it was imported."""

    @property
    def study(self) -> str:
        """The study of the run: the runs of one command, one per variant, share their caps."""
        study = self.meta.get("study_id")
        return study if isinstance(study, str) and study else self.key

    def as_json(self) -> dict[str, Json]:
        counts = self.counts
        return {
            "key": self.key,
            "name": bounded(self.path.name, text=300),
            "path": bounded(str(self.path), text=1000),
            **self.meta,
            "state": self.state or "unknown",
            "problem": bounded(self.problem, text=500),
            "altered": bounded(self.altered, text=500),
            "not_sealed": self.unsealed,
            "planned": self.planned,
            "cap": self.cap,
            "counts": None
            if counts is None
            else {
                "attempts": counts.attempts,
                "passed": counts.passed,
                "not_passed": counts.not_passed,
                "not_counted": counts.not_counted,
                "needs_review": counts.needs_review,
                "spent": counts.spent,
                "superseded_spent": counts.superseded_spent,
                "unit": bounded(counts.unit, text=40),
                "unknown_costs": counts.unknown_costs,
                "suites": bounded(list(counts.suites), text=300),
                "agents": bounded(list(counts.agents), text=120),
                "variants": bounded(list(counts.variants), text=120),
                "seconds": counts.seconds,
            },
        }


@dataclass
class RunIndex:
    """Entries of all runs below the roots. Safe to use from several threads."""

    roots: Roots
    on_rows: OnRows = lambda _key, _path, _meta, _rows, _altered: None
    on_removed: Callable[[str], None] = lambda _key: None
    _entries: dict[str, Entry] = field(default_factory=dict)
    _pilots: dict[str, Folder] = field(default_factory=dict)
    _running: dict[str, RunProgress] = field(default_factory=dict)
    _queue: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _progress: threading.Condition = field(default_factory=threading.Condition)
    _reader: threading.Thread | None = None
    _scanned: float = -1e9
    _closed: bool = False

    def refresh(self) -> None:
        """Look for new, changed and removed runs, and start reading them."""
        with self._lock:
            if time.monotonic() - self._scanned < RESCAN_SEC:
                return
            self._take(self.roots.scan())
            self._scanned = time.monotonic()
            self._start_reading()

    def entries(self, *, wait: bool = False) -> list[Entry]:
        """Return all runs, newest first. With `wait`, give the counts of the newest ones a moment to be read."""
        self.refresh()
        if wait:
            until = time.monotonic() + FIRST_SEC
            with self._progress:
                while self._unread_first() and (left := until - time.monotonic()) > 0:
                    self._progress.wait(left)
        with self._lock:
            return sorted(self._entries.values(), key=_age, reverse=True)

    def altered(self) -> list[str]:
        """Return the names of runs whose records differ from their seals."""
        with self._lock:
            return sorted(entry.path.name for entry in self._entries.values() if entry.altered)

    def unsealed(self) -> list[str]:
        """Return the names of runs with attempts without a seal, so that nothing shows whether they were edited."""
        with self._lock:
            return sorted(entry.path.name for entry in self._entries.values() if entry.unsealed)

    def pending(self) -> int:
        with self._lock:
            return len(self._queue)

    def wait_until_read(self, seconds: float) -> bool:
        """Wait until all known runs are read. Return False if the time is over first."""
        self.refresh()
        until = time.monotonic() + seconds
        with self._progress:
            while self.pending():
                if (left := until - time.monotonic()) <= 0:
                    return False
                self._progress.wait(min(left, 0.2))
        return True

    def entry(self, key: str) -> Entry:
        """Return the current entry of a run.

        Raises:
            InputError: there is no such run.
        """
        self.refresh()
        with self._lock:
            entry = self._entries.get(key)
        if entry is None:
            raise InputError("no such run below the served folders")
        if entry.refused:
            raise InputError(f"this run is not opened: {entry.problem}")
        return entry

    def recheck(self, key: str) -> Entry:
        """Return the entry of a run after looking at the files of this run only.

        Raises:
            InputError: there is no such run.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._take_run(key, Folder(entry.path, entry.problem if entry.refused else ""))
                self._start_reading()
        return self.entry(key)

    def progress(self, entry: Entry) -> dict[str, Json]:
        """Return running and waiting attempts, rate and time left of a run that is being made; nothing for others."""
        if entry.state != "running" or entry.refused:
            self._running.pop(entry.key, None)
            return {}
        with self._lock:
            progress = self._running.setdefault(entry.key, RunProgress(entry.path))
            progress.read()
            return progress.as_json(entry.planned, entry.counts.attempts if entry.counts else 0)

    def spent_by_study(self) -> dict[str, float]:
        """Return the cost of finished attempts by study: a cap of `ab run` is for all its variants."""
        spent: dict[str, float] = {}
        with self._lock:
            for entry in self._entries.values():
                if entry.counts is not None:
                    spent[entry.study] = spent.get(entry.study, 0.0) + entry.counts.spent
        return spent

    def pilots(self) -> dict[str, Folder]:
        self.refresh()
        with self._lock:
            return dict(self._pilots)

    def close(self) -> None:
        """Stop reading."""
        self._closed = True
        reader = self._reader
        if reader is not None:
            reader.join(10)

    # --- internals ----------------------------------------------------------------------------------------------------

    def _take(self, found: Found) -> None:
        """Take over the result of a scan."""
        self._pilots = found.pilots
        for key in self._entries.keys() - found.runs.keys():
            del self._entries[key]
            self._running.pop(key, None)
            self._queue = [queued for queued in self._queue if queued != key]
            self.on_removed(key)
        for key, folder in found.runs.items():
            self._take_run(key, folder)
        self._queue.sort(key=lambda key: _age(self._entries[key]))

    def _take_run(self, key: str, folder: Folder) -> None:
        """Update the entry of a run, and queue the run if its records must be read."""
        path, old = folder.path, self._entries.get(key)
        current = signature(path)
        refused = folder.refused or (
            f"{EVENTS} or {ATTEMPTS} is larger than 1 GB" if max(current[2], current[4]) > MAX_RECORDS else ""
        )
        if refused:
            self._entries[key] = _refused(key, path, (), refused)
            return
        now = time.monotonic()
        if old is not None and old.signature == current:
            if old.state == "running" and now - old.state_at > LOCK_SEC:
                self._entries[key] = replace(old, state=_state(path, old.state), state_at=now)
            return
        if old is None or old.signature[:2] != current[:2]:
            self._entries[key] = described = _described(key, path, current)
            if described.refused:
                return
        elif old.refused or now - old.read_at < REREAD_FACTOR * old.read_sec:
            return
        if key not in self._queue:
            self._queue.append(key)

    def _start_reading(self) -> None:
        if self._queue and self._reader is None and not self._closed:
            self._reader = threading.Thread(target=self._read_queue, name="run-index", daemon=True)
            self._reader.start()

    def _unread_first(self) -> bool:
        with self._lock:
            if not self._queue:
                return False
            newest = sorted(self._entries.values(), key=_age, reverse=True)[:FIRST_RUNS]
            return any(entry.counts is None and not entry.problem for entry in newest)

    def _read_queue(self) -> None:
        while not self._closed:
            with self._lock:
                if not self._queue:
                    self._reader = None
                    break
                entry = self._entries[self._queue[-1]]
            read = self._read(entry)
            with self._lock:
                if entry.key in self._entries:
                    self._entries[entry.key] = read
                self._queue = [key for key in self._queue if key != entry.key]
            with self._progress:
                self._progress.notify_all()
        with self._progress:
            self._progress.notify_all()

    def _read(self, entry: Entry) -> Entry:
        if entry.refused:
            return entry
        began = time.monotonic()
        current = signature(entry.path)
        altered, unsealed, cap = "", "", entry.cap
        try:
            rows, _, superseded_cost, seals = read_rows(entry.path)
            altered = next(map(str, seals.altered()), "")
            state = _ended_state(entry.path, rows)
            unsealed = _unsealed(rows, seals, state)
            self.on_rows(entry.key, entry.path, entry.meta, rows, altered or unsealed)
            cap = _resumed_cap(entry)
            problem, counts = entry.problem, count(rows, superseded_cost, read_adjudications(entry.path))
        except AgentBenchError as error:
            state, problem, counts = "unreadable", error.message, None
        except (OSError, ValueError, RecursionError) as error:
            state, problem, counts = "unreadable", f"cannot be read: {type(error).__name__}", None
        now = time.monotonic()
        return replace(
            entry, signature=current, state=state, problem=problem, altered=altered, unsealed=unsealed, cap=cap, counts=counts,
            read_sec=now - began, read_at=now, state_at=now,
        )  # fmt: skip


def _unsealed(rows: Sequence[Row], seals: SealCheck, state: str) -> str:
    """Say how many attempts have no seal. A run that is being made seals them in a moment; imported ones never have one."""
    imported = not seals.present and all(row.contract_id.startswith(IMPORTED_ID) for row in rows)
    if state == "running" or imported:
        return ""
    return SealMarks(attempts=len(rows), unsealed=len(unsealed_attempts(rows, seals))).doubt


def count(
    rows: Sequence[Row], superseded_cost: Mapping[str, float], adjudications: Sequence[Adjudication] = ()
) -> Counts:
    """Count final attempts, and what all attempts cost."""
    counted = [value for row in rows if (value := trial_of(row).value(Rate.CONTRACT)) is not None]
    costs = [(cost, row.cost.unit) for row in rows if (cost := row.cost.known_total) is not None]
    units = sorted({unit for _, unit in costs} | superseded_cost.keys())
    superseded_spent = sum(superseded_cost.values()) if len(units) == 1 else 0.0
    return Counts(
        attempts=len(rows),
        passed=sum(counted),
        not_passed=len(counted) - sum(counted),
        not_counted=len(rows) - len(counted),
        flagged=sum(row.needs_review for row in rows),
        needs_review=len(to_review(rows, adjudications)),
        spent=superseded_spent + sum(cost for cost, _ in costs) if len(units) == 1 else 0.0,
        superseded_spent=superseded_spent,
        unit=units[0] if len(units) == 1 else "",
        unknown_costs=len(rows) - len(costs),
        suites=tuple(sorted({row.suite for row in rows})),
        agents=tuple(sorted({row.agent for row in rows})),
        variants=tuple(sorted({row.variant for row in rows})),
        seconds=sum(row.duration for row in rows),
    )


def signature(path: Path) -> Signature:
    """Return sizes and times of the files that an entry is read from."""
    values: list[int] = []
    for name in (RUN_JSON, EVENTS, ATTEMPTS, ADJUDICATIONS):
        try:
            status = (path / name).lstat()
            values += [status.st_size, status.st_mtime_ns]
        except OSError:
            values += [-1, -1]
    return tuple(values)


def _refused(key: str, path: Path, current: Signature, problem: str) -> Entry:
    return Entry(key, path, {}, current, state="unreadable", problem=problem, refused=True)


def _described(key: str, path: Path, current: Signature) -> Entry:
    try:
        meta = _read_meta(path)
    except InputError as error:
        return _refused(key, path, current, error.message)
    shown = {name: bounded(meta.get(name), text=300) for name in SHOWN_META}
    return Entry(key, path, shown, current, planned=_planned(meta), cap=_cap(meta))


def _read_meta(path: Path) -> dict[str, Json]:
    """
    Raises:
        InputError: `run.json` cannot be read, is too large or is not an object.
    """
    try:
        with open_regular(path / RUN_JSON) as file:
            text = file.read(MAX_RUN_JSON + 1)
        if len(text) > MAX_RUN_JSON:
            raise InputError(f"{RUN_JSON} is larger than 32 MB")
        meta = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{RUN_JSON} cannot be read: {type(error).__name__}") from error
    if not isinstance(meta, dict):
        raise InputError(f"{RUN_JSON} is not an object")
    return meta


def _planned(meta: Mapping[str, Json]) -> int | None:
    order, variant = meta.get("order"), meta.get("variant")
    if not isinstance(order, list):
        return None
    return sum(1 for attempt in order if isinstance(attempt, list) and len(attempt) > 1 and attempt[1] == variant)


def _cap(meta: Mapping[str, Json]) -> float | None:
    request = meta.get("request")
    cap = request.get("total_usd") if isinstance(request, Mapping) else None
    return cap if isinstance(cap, int | float) and math.isfinite(cap) else None


def _resumed_cap(entry: Entry) -> float | None:
    """Return the cap with which the run was resumed last, else that of its start."""
    try:
        cap = RunDirectory.open(entry.path).resumed_caps().get("total_usd")
    except AgentBenchError:
        return entry.cap
    return entry.cap if cap is None else cap / MICRO


def _state(path: Path, fallback: str) -> str:
    try:
        return run_state(path)
    except (AgentBenchError, OSError, ValueError):
        return fallback or "unreadable"


def _ended_state(path: Path, rows: Sequence[Row]) -> str:
    """Return the state of a run whose records were read. The plan is not kept in memory; only ended runs need it."""
    state = run_state(path)
    return listed_state(state, missing_results(_read_meta(path), rows)) if state == "finished" else state


def _age(entry: Entry) -> tuple[str, str]:
    created = entry.meta.get("created_at")
    return (created if isinstance(created, str) else "", entry.path.name)
