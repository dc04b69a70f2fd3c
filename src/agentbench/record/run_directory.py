"""The run directory: begins attempts, commits their records, reads records, resumes after a crash.

An attempt is committed in this order. `open(writable=True)` repairs a crash between any two steps:

1. `meta/record.json` gets the record that will be sealed, `meta/files.json` the list of evidence files;
2. the attempt's chain is closed with the record's digest;
3. the record is appended to `attempts.jsonl` (a superseded one becomes `final: false` in the same atomic step);
4. the run's chain seals the attempt.

The lock is on the run's log: it ends with the process that holds it and leaves no file behind.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, cast

from agentbench.core.atomic_file import sync_folder
from agentbench.core.canonical import CanonicalError, Json, canonical, parse_canonical, parse_strict, sha256_hex
from agentbench.core.errors import AgentBenchError, InputError, RecordError
from agentbench.core.ids import new_ulid, now_iso
from agentbench.core.regular_file import open_regular
from agentbench.record.attempt_folder import EVENTS, AttemptFolder, attempt_path, task_dir_name
from agentbench.record.durable import append_line, drop_torn_line, write_atomic
from agentbench.record.manifest import indented_json
from agentbench.record.naming import ATTEMPTS, RUN_JSON, new_run_folder, read_run_json, run_name
from agentbench.record.schema import AttemptRecord, parse_record, record_sha256
from agentbench.record.sealing import ClosedAttempt, close_attempt, closed_attempt
from agentbench.trace.events import AttemptBegun, AttemptSealed, ComparisonDecided, RunClosed, RunOpened, RunResumed
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.originals import EvidenceTerms
from agentbench.trace.redaction import Redactor

REWRITE_SHARE = 0.2
"""Largest share of the time for which records of superseded attempts may be rewritten."""


class RunDirectory:
    """A run directory. Reading needs no lock; one process may write, with any number of threads."""

    def __init__(self, path: Path, meta: Mapping[str, Json], log: EventLog | None, redact: Redactor | None) -> None:
        self.path = path
        self.meta = meta
        self.evidence = EvidenceTerms()
        self._log = log
        self._redact = redact
        self._lock = threading.Lock()
        self._begun: dict[str, AttemptBegun] = {}
        """Attempts that have begun and are not sealed."""
        self._sealed: set[str] = set()
        self._attempts: dict[tuple[str, int], int] = {}
        """Highest attempt number for each task and repeat."""
        self._finals: dict[tuple[str, str, int], str] = {}
        self._decided: ComparisonDecided | None = None
        self._superseding: dict[str, tuple[AttemptFolder, ClosedAttempt]] = {}
        """Attempts that supersede others and wait to be committed, by id."""
        self._rewriting = threading.Lock()
        self._next_rewrite = 0.0

    # --- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        out: Path,
        *,
        suite: str,
        variant: str,
        model: str | None,
        meta: Mapping[str, Json],
        redact: Redactor | None = None,
    ) -> RunDirectory:
        """Create a run directory below `out`, named by time, suite, variant and model.

        `meta` is stored in `run.json`, which never changes afterwards. `run_id` and `study_id` are generated unless
        `meta` contains them.

        Raises:
            InputError: `out` cannot be used.
            RecordError: a file cannot be written.
        """
        path = new_run_folder(out, run_name(suite, variant, model))
        full: dict[str, Json] = {
            "schema_version": 1,
            "run_id": new_ulid(),
            "study_id": new_ulid(),
            "harness_version": "",
            "created_at": now_iso(),
            "suite": suite,
            "variant": variant,
            "model": model,
            **meta,
        }
        data = indented_json(full, redact)
        write_atomic(path / RUN_JSON, data)
        write_atomic(path / ATTEMPTS, b"")
        # The run's log contains only names and digests, so it is not redacted.
        log = EventLog.create(path / EVENTS)
        log.append(_opening(full, data))
        log.sync()
        sync_folder(path)
        return cls(path, full, log, redact)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        writable: bool = False,
        harness_version: str = "",
        redact: Redactor | None = None,
        caps: Mapping[str, int] | None = None,
    ) -> RunDirectory:
        """Open a run directory. With `writable`, lock it, repair an interrupted commit, and continue the run.

        `caps` are recorded as the caps of the continued run.

        Raises:
            InputError: not a run directory, or another process writes it.
            RecordError: a file cannot be read.
        """
        try:
            meta = parse_strict(read_run_json(path))
        except FileNotFoundError:
            problem = "is not a run directory (no run.json)" if path.is_dir() else "does not exist"
            raise InputError(f"{path} {problem}") from None
        except NotADirectoryError:
            raise InputError(f"{path} is a file, not a run directory") from None
        except OSError as error:
            raise RecordError.of("read", path / RUN_JSON, error) from error
        except CanonicalError as error:
            raise RecordError(f"{path / RUN_JSON}: {error}") from error
        if not isinstance(meta, Mapping):
            raise RecordError(f"{path / RUN_JSON}: expected an object")
        run = cls(path, meta, None, redact)
        if writable:
            run._continue(harness_version, caps)
        return run

    def _continue(self, harness_version: str, caps: Mapping[str, int] | None) -> None:
        log, _torn = EventLog.reopen(self.path / EVENTS)
        self._log = log
        try:
            if not log.count:
                self._reopen_empty(log)
            drop_torn_line(self.path / ATTEMPTS)
            self._load()
            self._repair()
            log.append(
                RunResumed(
                    harness_version=harness_version,
                    resumed_at=now_iso(),
                    unfinished=[folder.attempt_id for folder in self.unfinished()],
                    caps=dict(caps) if caps else None,
                )
            )
            log.sync()
        except BaseException:
            log.release()
            raise

    def _reopen_empty(self, log: EventLog) -> None:
        """Reopen a run whose process died before the first event. A run with attempts must have events."""
        if next(self.records(), None) is not None or any(self.path.glob("tasks/*")):
            msg = f"{self.path / EVENTS} is empty, but the run has attempts"
            raise RecordError(msg, remedy="run `ab verify` for details")
        log.append(_opening(self.meta, (self.path / RUN_JSON).read_bytes()))

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return str(self.meta["run_id"])

    @property
    def study_id(self) -> str:
        return str(self.meta["study_id"])

    @property
    def head(self) -> str | None:
        """Return the head of the run's chain while the run is open for writing."""
        return self._log.head if self._log else None

    @property
    def writable(self) -> bool:
        return self._log is not None

    def records(self) -> Iterator[AttemptRecord]:
        """Yield every record in the order that attempts ended. An incomplete last line is ignored.

        Raises:
            RecordError: a line is not a record.
        """
        try:
            with open_regular(self.path / ATTEMPTS) as file:
                for number, raw in enumerate(file, start=1):
                    if not raw.endswith(b"\n"):
                        return
                    try:
                        yield parse_record(raw[:-1])
                    except RecordError as error:
                        raise RecordError(f"{self.path / ATTEMPTS}:{number}: {error.message}") from None
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError.of("read", self.path / ATTEMPTS, error) from error

    def finals(self) -> Iterator[AttemptRecord]:
        """Yield the final records: one for each (task, variant, repeat)."""
        return (record for record in self.records() if record.final)

    def resumed_caps(self) -> Mapping[str, int]:
        """Return the caps with which the run was resumed last; empty if it was not, or without changing them."""
        events = read_events(self.path / EVENTS, types={RunResumed.type})
        resumed = [event.payload for event in events if isinstance(event.payload, RunResumed)]
        return next((payload.caps for payload in reversed(resumed) if payload.caps), {})

    def unfinished(self) -> tuple[AttemptFolder, ...]:
        """Return attempts that began and were never sealed because their process died."""
        if self._log is None:
            self._load()
        return tuple(self._folder(begun) for key, begun in self._begun.items() if key not in self._sealed)

    # --- writing ------------------------------------------------------------------------------------------------------

    def begin(
        self, task_id: str, repeat: int, *, supersedes: str | None = None, attempt_id: str | None = None
    ) -> AttemptFolder:
        """Register an attempt and create its folder. Without an id it gets a new one.

        Raises:
            RecordError: a file cannot be written.
        """
        log = self._writing()
        with self._lock:
            attempt = self._attempts.get((task_id, repeat), 0) + 1
            begun = AttemptBegun(
                attempt_id=attempt_id or new_ulid(),
                task_id=task_id,
                repeat=repeat,
                attempt=attempt,
                task_dir=task_dir_name(task_id, repeat, attempt),
                supersedes=supersedes,
            )
            folder = self._folder(begun)
            if folder.path.exists():
                raise RecordError(f"{folder.path} already exists")
            log.append(begun)
            self._register(begun)
        folder.make()
        return folder

    def commit(self, folder: AttemptFolder, log: EventLog, record: AttemptRecord) -> AttemptRecord:
        """Finish an attempt: seal its files, close its chain, append its record, seal it in the run's chain.

        Returns the record as written to `attempts.jsonl`.

        Raises:
            RecordError: a file cannot be written; `open(writable=True)` completes the commit later.
        """
        return self.adopt(folder, close_attempt(folder, log, record))

    def adopt(self, folder: AttemptFolder, closed: ClosedAttempt | None = None) -> AttemptRecord:
        """Add an attempt whose chain is already closed, possibly on another machine.

        Raises:
            RecordError: its chain is not closed, or a file cannot be written.
        """
        self._writing()
        ended = closed or closed_attempt(folder)
        if ended is None:
            raise RecordError(f"{folder.path}: the attempt has not ended")
        if ended.files_sha256 is None:
            # Outside of the lock: other attempts commit meanwhile.
            ended = replace(ended, files_sha256=folder.seal_files())
        if ended.record.supersedes is None:
            with self._lock:
                self._append(ended.record)
                self._seal(folder, ended)
        else:
            self._supersede(folder, ended)
        return ended.record

    def record_decision(self, decided: ComparisonDecided) -> None:
        """Log the decision of the stopping rule, once."""
        log = self._writing()
        with self._lock:
            if self._decided != decided:
                log.append(decided)
                log.sync()
                self._decided = decided

    def close(self, status: Literal["completed", "interrupted"] = "completed") -> str:
        """Close the run's chain and return its head, which identifies the run."""
        log = self._writing()
        with self._lock:
            log.append(
                RunClosed(
                    status=status, closed_at=now_iso(), attempts=len(self._sealed), events=log.count, head=log.head
                )
            )
            log.sync()
            log.release()
            self._log = None
        return log.head

    def release(self) -> None:
        """Release the lock without closing the run."""
        if self._log:
            self._log.release()
            self._log = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()

    # --- internals -------------------------------------------------------------------------------------------------------

    def _writing(self) -> EventLog:
        if self._log is None:
            raise RecordError(f"{self.path} is not open for writing")
        return self._log

    def _folder(self, begun: AttemptBegun) -> AttemptFolder:
        attempt_path(self.path, begun.task_dir)  # refuses a folder outside
        return AttemptFolder(
            run=self.path,
            redact=self._redact,
            run_id=self.run_id,
            study_id=self.study_id,
            text=self.evidence.text,
            originals=self.evidence.originals(begun.attempt_id),
            **begun.model_dump(),
        )

    def _append(self, *records: AttemptRecord) -> None:
        """Append records and mark those that they supersede as not final, in one atomic step."""
        for record in records:
            self._require_successor(record)
        path = self.path / ATTEMPTS
        superseded = {record.supersedes.encode() for record in records if record.supersedes is not None}
        if not superseded:
            for record in records:
                append_line(path, record.line())
        else:
            write_atomic(path, _rewritten(path, superseded, records))
        self._finals.update((record.key, record.attempt_id) for record in records)

    def _require_successor(self, record: AttemptRecord) -> None:
        current = self._finals.get(record.key)
        if current != record.supersedes:
            msg = (
                f"attempt {record.attempt_id} supersedes {record.supersedes or 'nothing'}, but the final record of "
                f"{record.task_id}, {record.variant}, repeat {record.repeat} is {current or 'missing'}"
            )
            raise RecordError(msg)

    def _supersede(self, folder: AttemptFolder, closed: ClosedAttempt) -> None:
        """Commit an attempt that supersedes another, together with all others that wait to do so.

        Marking a record as not final writes the whole file anew. Its length grows with the run, so that happens at most for a
        limited share of the time.
        """
        attempt_id = closed.record.attempt_id
        with self._lock:
            self._require_successor(closed.record)
            self._superseding[attempt_id] = folder, closed
        with self._rewriting:
            if attempt_id not in self._superseding:
                return  # another thread has committed it
            time.sleep(max(0.0, self._next_rewrite - time.monotonic()))
            with self._lock:
                began = time.monotonic()
                together = list(self._superseding.values())
                try:
                    self._append(*(ended.record for _, ended in together))
                except BaseException:
                    del self._superseding[attempt_id]
                    raise
                self._superseding.clear()
                for other, ended in together:
                    self._seal(other, ended)
                now = time.monotonic()
                self._next_rewrite = now + (now - began) * (1 / REWRITE_SHARE - 1)

    def _seal(self, folder: AttemptFolder, closed: ClosedAttempt) -> None:
        log = self._writing()
        sealed = AttemptSealed(
            attempt_id=closed.record.attempt_id,
            task_dir=folder.task_dir,
            events=closed.events,
            head=closed.record.trace_head or "",
            record_sha256=closed.record_sha256 or record_sha256(closed.record),
            files_sha256=closed.files_sha256 or folder.seal_files(),
        )
        log.append(sealed)
        log.sync()
        self._sealed.add(sealed.attempt_id)
        self._begun.pop(sealed.attempt_id, None)

    def _register(self, begun: AttemptBegun) -> None:
        self._begun[begun.attempt_id] = begun
        key = (begun.task_id, begun.repeat)
        self._attempts[key] = max(begun.attempt, self._attempts.get(key, 0))

    def _load(self) -> None:
        """Load the state of the run from its chain and records."""
        types = {AttemptBegun.type, AttemptSealed.type, ComparisonDecided.type}
        for event in read_events(self.path / EVENTS, types=types):
            if isinstance(event.payload, AttemptBegun):
                self._register(event.payload)
            elif isinstance(event.payload, AttemptSealed):
                self._sealed.add(event.payload.attempt_id)
            elif isinstance(event.payload, ComparisonDecided):
                self._decided = event.payload
        self._finals = {record.key: record.attempt_id for record in self.finals()}

    def _repair(self) -> None:
        """Complete commits that a crash interrupted after the chain was closed.

        This also restores the line of a sealed attempt that a failing disk lost; its record is in its folder.
        """
        recorded = dict.fromkeys(record.attempt_id for record in self.records())
        missing = dict.fromkeys(attempt_id for attempt_id in self._begun if attempt_id not in recorded)
        # Records that were written together are sealed in their order.
        for attempt_id in [*recorded, *missing]:
            begun = self._begun.get(attempt_id)
            if begun is None or (attempt_id in self._sealed and attempt_id not in missing):
                continue
            folder = self._folder(begun)
            closed = closed_attempt(folder)
            if closed is None:
                continue
            if attempt_id in missing:
                self._append(closed.record)
            if attempt_id not in self._sealed:
                self._seal(folder, closed)


def study_runs(run: RunDirectory) -> Iterator[RunDirectory]:
    """Open the runs of the same study in the same folder, this one included."""
    for path in sorted(run.path.absolute().parent.iterdir()):
        try:
            other = RunDirectory.open(path)
        except AgentBenchError:
            continue
        if other.meta.get("study_id") == run.study_id:
            yield other


def _rewritten(path: Path, superseded: Container[bytes], added: Sequence[AttemptRecord]) -> Iterator[bytes]:
    """Yield the lines of a file of records with these attempts marked as not final, and the added records."""
    with open_regular(path) as file:
        for line in file:
            yield _not_final(line) if _attempt_id(line) in superseded else line
    for record in added:
        yield record.line() + b"\n"


def _attempt_id(line: bytes) -> bytes:
    """Return the id in a line. No text of a record contains the key: its quotes would be escaped."""
    return line.partition(b'"attempt_id":"')[2].partition(b'"')[0]


def _not_final(line: bytes) -> bytes:
    """Mark a record as not final. Its other keys stay: an older version may have written fewer."""
    value = parse_canonical(line[:-1])
    return canonical({**cast("Mapping[str, Json]", value), "final": False}) + b"\n"


def _opening(meta: Mapping[str, Json], run_json: bytes) -> RunOpened:
    return RunOpened(
        run_id=str(meta["run_id"]),
        study_id=str(meta["study_id"]),
        suite=str(meta["suite"]),
        variant=str(meta["variant"]),
        harness_version=str(meta["harness_version"]),
        run_json_sha256=sha256_hex(run_json),
        nonce=secrets.token_hex(16),
    )
