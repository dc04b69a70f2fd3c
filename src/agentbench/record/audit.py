"""Audits a run: recomputes every digest and reports what was changed, removed, reordered, truncated or added.

Each part is compared with another (←):

    run.json            ← run_opened.run_json_sha256
    events.jsonl        its chain, closed by run_closed; note its head elsewhere
    attempts.jsonl      ← attempt_sealed: order, digest of each record, head; `final` ← `supersedes`
    <task_dir>/…        see attempt_audit.py

A chain reveals every change except a rewrite of the whole directory. Only a head that was noted earlier (`expect_head`) reveals
that.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import CanonicalError, Json, canonical, parse_canonical, sha256_hex
from agentbench.core.cpu_budget import CpuBudget
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.record.attempt_audit import SYMLINK, AttemptAudit, AuditTerms, Recompute, audit_attempt
from agentbench.record.attempt_folder import EVENTS, attempt_path, content
from agentbench.record.kept_rules import RULES, is_rule_file, kept_rules, name_matches_content
from agentbench.record.naming import ADJUDICATIONS, ATTEMPTS, PAGES, REPORT, RUN_JSON, SIGNATURES
from agentbench.record.run_state import is_imported
from agentbench.record.schema import UNSEALED, AttemptRecord, parse_record
from agentbench.trace.chain import BadLine, Line
from agentbench.trace.events import (
    AttemptBegun,
    AttemptSealed,
    ComparisonDecided,
    Payload,
    RunClosed,
    RunOpened,
    RunReduced,
    RunResumed,
)
from agentbench.trace.verify import ChainReport, Kind, Problem, check_chain

FOLDERS = frozenset({"tasks", RULES, PAGES})
FILES = frozenset({RUN_JSON, ATTEMPTS, EVENTS, REPORT, ADJUDICATIONS}) | SIGNATURES
RULES_CPU_SEC = 60
"""CPU time for stored rules of other versions, and one more second for every attempt."""
Decision = Literal["verified", "altered", "incomplete"]


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of an audit. Start with the first of the `problems`."""

    path: Path
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    head: str
    attempts: int
    events: int
    bytes: int
    recomputed: int
    """Number of verdicts recomputed from the trace."""
    skipped: tuple[str, ...] = ()
    """Parts that could not be recomputed, with the number of attempts."""
    unsealed: tuple[str, ...] = ()
    """Files of the run directory that no chain covers."""
    decided: ComparisonDecided | None = None
    """The logged decision of the stopping rule. Its statistics are recomputed by the caller."""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def decision(self) -> Decision:
        if self.ok:
            return "verified"
        return "incomplete" if all(problem.kind == "unclosed" for problem in self.problems) else "altered"


@dataclass(slots=True)
class _RunLog:
    """The contents of the run's chain."""

    chain: ChainReport
    opened: RunOpened | None = None
    begun: dict[str, AttemptBegun] = field(default_factory=dict)
    sealed: dict[str, AttemptSealed] = field(default_factory=dict)
    closed: bool = False
    decided: ComparisonDecided | None = None
    reduced: RunReduced | None = None
    minimal: frozenset[str] = frozenset()
    """Attempts that existed when the run was reduced. Only these may lack files."""
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RecordLine:
    number: int
    record: AttemptRecord
    sha256: str
    """Digest of what the seal covers, computed from the line itself rather than the parsed record."""


def verify_run(path: Path, *, recompute: Recompute | None = None, expect_head: str | None = None) -> RunReport:
    """Audit a run directory. With `recompute`, recompute every verdict and compare it with its record.

    Raises:
        InputError: `path` is not a run directory.
    """
    if not (path / RUN_JSON).is_file() and not (path / EVENTS).is_file():
        if path.is_file():
            raise InputError(f"{path} is a file, not a run directory")
        state = "is not a run directory (no run.json and no events.jsonl)" if path.is_dir() else "does not exist"
        raise InputError(f"{path} {state}")
    if is_imported(path):
        msg = f"{path} was imported from another tool: it has no evidence to verify"
        raise InputError(msg, remedy="verify the source with the tool that made it")
    try:
        return _RunAuditor(path, recompute).run(expect_head)
    except RecordError as error:
        problem = Problem("missing", str(path), error.message)
        return RunReport(path, (problem,), (), "", 0, 0, 0, 0)


class _RunAuditor:
    def __init__(self, path: Path, recompute: Recompute | None) -> None:
        self.path = path
        self.recompute = recompute
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.counts = {"attempts": 0, "events": 0, "bytes": 0, "recomputed": 0}

    def run(self, expect_head: str | None) -> RunReport:
        if not (self.path / EVENTS).is_file():
            self._problem("removed", EVENTS, "the run's log is missing")
            return self._report("")
        self._check_types()
        self._check_rules()
        log = _read_run_log(self.path)
        self._count(log.chain)
        self._check_run_json(log)
        self.problems += log.problems
        lines = self._record_lines(log)
        self._check_order(log, lines)
        self._check_finality(lines)
        # All attempts share the rules: read and compile them once.
        budget = CpuBudget(RULES_CPU_SEC + len(log.sealed))
        full = AuditTerms(self.recompute, cache(partial(kept_rules, self.path)), budget)
        minimal = replace(full, reduced=True)
        for attempt_id, sealed in log.sealed.items():
            self._check_attempt(sealed, lines.get(attempt_id), minimal if attempt_id in log.minimal else full)
        self._check_unsealed_attempts(log)
        if log.reduced is not None:
            reduced = log.reduced
            self.notes.append(
                f"bulky evidence deleted at {reduced.reduced_at}: {reduced.files} files, "
                f"approved by {reduced.approved_by} ({reduced.reason})"
            )
        if not log.closed and not log.chain.problem:
            torn = f", then {log.chain.torn_bytes} bytes of an incomplete line" if log.chain.torn_bytes else ""
            self._problem(
                "unclosed",
                f"{EVENTS}:{log.chain.events + 1}",
                f"no closing record after event {log.chain.events}{torn}: the run is still running, was interrupted"
                " (`ab run --resume` finishes it), or was truncated",
            )
        if expect_head and _bare(expect_head) != _bare(log.chain.head):
            self._problem("changed", EVENTS, f"the head is {log.chain.head}, expected {expect_head}")
        return self._report(log.chain.head, log.decided)

    def _problem(self, kind: Kind, place: str, message: str) -> None:
        self.problems.append(Problem(kind, place, message))

    def _report(self, head: str, decided: ComparisonDecided | None = None) -> RunReport:
        skipped = tuple(f"{why} (attempts: {times})" for why, times in self.skipped.items())
        return RunReport(
            self.path,
            tuple(self.problems),
            tuple(self.notes),
            head,
            **self.counts,
            skipped=skipped,
            unsealed=self._unsealed(),
            decided=decided,
        )

    def _unsealed(self) -> tuple[str, ...]:
        """Return the files that no chain covers. Rule files are covered by their names, which are in the manifests."""
        known = {RUN_JSON, EVENTS, ATTEMPTS, "tasks", RULES} | SIGNATURES
        other = {entry.name for entry in self.path.iterdir()} - known
        unknown = {f"{RULES}/{entry.name}" for entry in self._rule_files() if not is_rule_file(entry)}
        return tuple(sorted(other | unknown))

    def _check_rules(self) -> None:
        for entry in self._rule_files():
            if is_rule_file(entry) and not name_matches_content(entry):
                self._problem("changed", f"{RULES}/{entry.name}", "the content differs from the digest in its name")

    def _rule_files(self) -> list[Path]:
        return sorted((self.path / RULES).iterdir()) if (self.path / RULES).is_dir() else []

    def _count(self, chain: ChainReport) -> None:
        self.counts["events"] += chain.events
        self.counts["bytes"] += chain.size

    def _check_types(self) -> None:
        """Report links, pipes and devices in the run directory itself, and files and folders in place of each other.

        The target of a link could be changed without changing the run.
        """
        for entry in sorted(self.path.iterdir()):
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                self._problem("changed", entry.name, SYMLINK)
            elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                self._problem("changed", entry.name, "is neither a file nor a folder")
            elif entry.name in FOLDERS | FILES and stat.S_ISDIR(mode) != (entry.name in FOLDERS):
                kind = "folder" if entry.name in FOLDERS else "file"
                self._problem("changed", entry.name, f"is not a {kind}")

    def _check_run_json(self, log: _RunLog) -> None:
        data = content(self.path / RUN_JSON)
        if data is None:
            self._problem("removed", RUN_JSON, "the file is missing")
            return
        if log.opened and sha256_hex(data) != log.opened.run_json_sha256:
            self._problem("changed", RUN_JSON, "differs from when the run was opened")

    # --- attempts.jsonl -----------------------------------------------------------------------------------------------

    def _record_lines(self, log: _RunLog) -> dict[str, _RecordLine]:
        lines: dict[str, _RecordLine] = {}
        data = content(self.path / ATTEMPTS)
        if data is None:
            self._problem("removed", ATTEMPTS, "the file is missing")
            return lines
        *whole, torn = data.split(b"\n")
        for number, raw in enumerate(whole, start=1):
            place = f"{ATTEMPTS}:{number}"
            try:
                line = _record_line(number, raw)
            except RecordError as error:
                self._problem("changed", place, error.message)
                continue
            if line.record.attempt_id in lines:
                self._problem("appended", place, f"duplicate record of attempt {line.record.attempt_id}")
                continue
            lines[line.record.attempt_id] = line
        if torn and log.closed:
            self._problem("truncated", f"{ATTEMPTS}:{len(whole) + 1}", "the last line is incomplete")
        elif torn:
            self.notes.append(f"{ATTEMPTS}:{len(whole) + 1}: incomplete line of {len(torn)} bytes")
        return lines

    def _check_order(self, log: _RunLog, lines: Mapping[str, _RecordLine]) -> None:
        for attempt_id in log.sealed:
            if attempt_id not in lines and not any(problem.place.startswith(ATTEMPTS) for problem in self.problems):
                self._problem("removed", ATTEMPTS, f"the record of attempt {attempt_id} is missing")
        extra = [line for attempt_id, line in lines.items() if attempt_id not in log.sealed]
        for line in extra:
            place = f"{ATTEMPTS}:{line.number}"
            if log.closed:
                self._problem("appended", place, f"the run never sealed attempt {line.record.attempt_id}")
            else:
                self.notes.append(f"{place}: attempt {line.record.attempt_id} is not sealed yet")
        present = [attempt_id for attempt_id in lines if attempt_id in log.sealed]
        expected = [attempt_id for attempt_id in log.sealed if attempt_id in lines]
        for actual, wanted in zip(present, expected, strict=True):
            if actual != wanted:
                place = f"{ATTEMPTS}:{lines[actual].number}"
                self._problem("reordered", place, f"expected attempt {wanted}, found attempt {actual}")
                break

    def _check_finality(self, lines: Mapping[str, _RecordLine]) -> None:
        """A record is final unless another supersedes it; each (task, variant, repeat) has one final record."""
        superseded = {line.record.supersedes for line in lines.values() if line.record.supersedes}
        finals: dict[tuple[str, str, int], str] = {}
        for attempt_id, line in lines.items():
            place = f"{ATTEMPTS}:{line.number}"
            if line.record.final == (attempt_id in superseded):
                marked = "final" if line.record.final else "not final"
                why = "another record supersedes it" if attempt_id in superseded else "no record supersedes it"
                self._problem("changed", place, f"attempt {attempt_id} is marked {marked}, but {why}")
            if line.record.supersedes and line.record.supersedes not in lines:
                message = f"attempt {attempt_id} supersedes {line.record.supersedes}, which has no record"
                self._problem("removed", place, message)
            if line.record.final and line.record.key in finals:
                message = f"attempt {attempt_id} is a second final record beside {finals[line.record.key]}"
                self._problem("inconsistent", place, message)
            elif line.record.final:
                finals[line.record.key] = attempt_id

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _check_attempt(self, sealed: AttemptSealed, line: _RecordLine | None, terms: AuditTerms) -> None:
        if line is not None:
            place = f"{ATTEMPTS}:{line.number}"
            if line.sha256 != sealed.record_sha256:
                self._problem(
                    "changed", place, f"the record of attempt {sealed.attempt_id} differs from the sealed one"
                )
            elif line.record.trace_head != sealed.head:
                self._problem(
                    "changed", place, f"trace_head of attempt {sealed.attempt_id} differs from the sealed one"
                )
        audit: AttemptAudit = audit_attempt(self.path, sealed, line.record if line else None, terms)
        self.problems += audit.problems
        self.notes += audit.notes
        if audit.chain:
            self._count(audit.chain)
        self.counts["attempts"] += 1
        self.counts["recomputed"] += audit.recomputed
        if audit.skipped:
            self.skipped[audit.skipped] += 1

    def _check_unsealed_attempts(self, log: _RunLog) -> None:
        """Report attempts without a seal, and folders that belong to no attempt."""
        for attempt_id, begun in log.begun.items():
            if attempt_id in log.sealed:
                continue
            if log.closed:
                self._problem("missing", begun.task_dir, f"attempt {attempt_id} was begun but has no record")
            else:
                self.notes.append(f"{begun.task_dir}: attempt {attempt_id} has not ended{_state(self.path, begun)}")
        known = {begun.task_dir for begun in log.begun.values()}
        if log.chain.problem:
            return
        tasks = self.path / "tasks"
        for name in sorted(entry.name for entry in tasks.iterdir()) if tasks.is_dir() else ():
            if f"tasks/{name}" not in known:
                self._problem("appended", f"tasks/{name}", "does not belong to any attempt of this run")


def _read_run_log(path: Path) -> _RunLog:
    payloads: list[tuple[int, Payload]] = []
    malformed: list[Problem] = []

    def collect(line: Line, _value: Mapping[str, Json]) -> None:
        try:
            payloads.append((line.seq, line.typed()))
        except BadLine as error:
            malformed.append(Problem("inconsistent", f"{EVENTS}:{line.seq}", str(error)))

    log = _RunLog(check_chain(path / EVENTS, name=EVENTS, watch=collect))
    log.problems += malformed
    for seq, payload in payloads:
        problem = _add_event(log, seq, payload)
        if problem:
            log.problems.append(problem)
    if log.chain.problem:
        log.problems.append(log.chain.problem)
        log.closed = False
    elif log.closed and log.chain.torn_bytes:
        place = f"{EVENTS}:{log.chain.events + 1}"
        log.problems.append(Problem("appended", place, f"{log.chain.torn_bytes} bytes follow the closing record"))
    return log


def _add_event(log: _RunLog, seq: int, payload: Payload) -> Problem | None:
    """Add one event of the run's chain, and return what is wrong with it, if anything."""
    place = f"{EVENTS}:{seq}"
    if log.closed and isinstance(payload, RunReduced):
        log.reduced, log.minimal = payload, frozenset(log.sealed)
        return None
    if log.closed and not isinstance(payload, RunResumed):
        return Problem("appended", place, "event after the closing record of the run")
    log.closed = False
    if (seq == 1) != isinstance(payload, RunOpened):
        return Problem("inconsistent", place, "run_opened must be the first event, and only that")
    if isinstance(payload, RunOpened):
        log.opened = payload
    elif isinstance(payload, AttemptBegun):
        log.begun[payload.attempt_id] = payload
    elif isinstance(payload, AttemptSealed):
        begun = log.begun.get(payload.attempt_id)
        if begun is None or begun.task_dir != payload.task_dir or payload.attempt_id in log.sealed:
            return Problem(
                "inconsistent", place, f"the seal of attempt {payload.attempt_id} does not match its beginning"
            )
        log.sealed[payload.attempt_id] = payload
    elif isinstance(payload, ComparisonDecided):
        log.decided = payload
    elif isinstance(payload, RunClosed):
        log.closed = True
        if (payload.events, payload.attempts) != (seq - 1, len(log.sealed)):
            return Problem("inconsistent", place, "the closing record does not match the run's log")
    return None


def _record_line(number: int, raw: bytes) -> _RecordLine:
    record = parse_record(raw)
    try:
        value = parse_canonical(raw)
    except CanonicalError as error:
        raise RecordError(str(error)) from None
    sealed = {key: inner for key, inner in value.items() if key not in UNSEALED} if isinstance(value, Mapping) else {}
    return _RecordLine(number, record, sha256_hex(canonical(sealed)))


def _state(path: Path, begun: AttemptBegun) -> str:
    """Describe how far an unfinished attempt got."""
    log = attempt_path(path, begun.task_dir) / EVENTS
    if not log.is_file():
        return "; it has no log"
    chain = check_chain(log)
    if chain.problem:
        return f"; its log is broken: {chain.problem.message}"
    torn = f", then {chain.torn_bytes} bytes of an incomplete line" if chain.torn_bytes else ""
    return f"; its log has {chain.events} complete events{torn}"


def _bare(head: str) -> str:
    return head.removeprefix("sha256:").strip().lower()
