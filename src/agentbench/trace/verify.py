"""Verifies one log and reports the first event that was changed, removed, reordered, truncated or added.

The bytes of the file are hashed as they are. Payloads must also be canonical JSON, which excludes duplicate keys and everything
else that JSON parsers disagree about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.core.regular_file import MAX_LINE, open_regular
from agentbench.trace.chain import GENESIS, BadLine, Line, read_line
from agentbench.trace.events import AttemptClosed, AttemptOpened

Kind = Literal["changed", "removed", "reordered", "truncated", "appended", "missing", "inconsistent", "unclosed"]
Watch = Callable[[Line, Mapping[str, Json]], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference from what was written. `place` is a file, with a line number if known."""

    kind: Kind
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of checking a chain up to the first problem."""

    events: int
    size: int
    """Size of the checked events in bytes."""
    head: str
    last: Line | None
    torn_bytes: int
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class LogReport:
    """The result of verifying an attempt's log."""

    chain: ChainReport
    opened: bool
    """Whether the first event is `attempt_opened`."""
    closing: AttemptClosed | None
    problem: Problem | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def check_chain(path: Path, *, name: str = "", watch: Watch | None = None) -> ChainReport:
    """Check a chain up to the first broken link. `watch` is called with every valid event.

    An incomplete last line is counted in `torn_bytes` and is not a problem by itself; whether a log may end like that depends on
    the caller.

    Raises:
        RecordError: the file cannot be read.
    """
    checker = _ChainChecker(path, name or path.name, watch)
    torn = 0
    try:
        with open_regular(path) as file:
            for raw in file:
                if not raw.endswith(b"\n") and len(raw) < MAX_LINE:
                    torn = file.seek(0, 2) - checker.size
                    break
                checker.check(raw)
                if checker.problem:
                    break
    except OSError as error:
        raise RecordError.of("read", path, error) from error
    return ChainReport(checker.count, checker.size, checker.head, checker.last, torn, checker.problem)


class _ChainChecker:
    def __init__(self, path: Path, name: str, watch: Watch | None) -> None:
        self.path, self.name, self.watch = path, name, watch
        self.head, self.count, self.size = GENESIS, 0, 0
        self.last: Line | None = None
        self.problem: Problem | None = None

    def check(self, raw: bytes) -> None:
        try:
            line = read_line(raw[:-1])
            if not self._follows(line):
                self._stop(*self._explain(line))
                return
            value = line.value()
        except BadLine as error:
            self._stop("changed", f"event {self.count + 1}: {error}")
            return
        if self.watch:
            self.watch(line, value)
        self.last, self.head = line, line.hash
        self.count, self.size = self.count + 1, self.size + len(raw)

    def _follows(self, line: Line) -> bool:
        return (
            line.computed() == line.hash
            and line.prev == self.head
            and line.seq == self.count + 1
            and (self.last is None or line.t > self.last.t)
        )

    def _explain(self, line: Line) -> tuple[Kind, str]:
        """Explain why this line does not follow the previous one."""
        number = self.count + 1
        if line.computed() != line.hash:
            return "changed", f"event {line.seq} was changed: its hash does not match its content"
        if line.seq > number:
            if _occurs_later(self.path, number):
                return "reordered", f"event {line.seq} comes before event {number}"
            missing = f"event {number} is" if line.seq == number + 1 else f"events {number} to {line.seq - 1} are"
            return "removed", f"{missing} missing"
        if line.seq < number:
            return "appended", f"duplicate event {line.seq}"
        if line.prev != self.head:
            return "changed", f"event {line.seq} does not follow the previous event: the chain was rewritten"
        return "inconsistent", f"the time of event {line.seq} is not later than that of the previous event"

    def _stop(self, kind: Kind, message: str) -> None:
        self.problem = Problem(kind, f"{self.name}:{self.count + 1}", message)


def verify_log(path: Path, *, name: str = "", watch: Watch | None = None) -> LogReport:
    """Verify the log of a finished attempt: chain, closing event, nothing after it.

    Whether `attempt_opened` may be missing depends on how far the attempt got; the caller decides.

    Raises:
        RecordError: the file cannot be read.
    """
    name = name or path.name
    closings: list[int] = []
    first: list[str] = []

    def collect(line: Line, value: Mapping[str, Json]) -> None:
        if line.seq == 1:
            first.append(line.type)
        if line.type == AttemptClosed.type:
            closings.append(line.seq)
        if watch:
            watch(line, value)

    chain = check_chain(path, name=name, watch=collect)
    closing, problem = None, chain.problem
    if problem is None:
        closing, problem = _closing(chain, closings, name)
    return LogReport(chain, first == [AttemptOpened.type], closing, problem)


def _occurs_later(path: Path, seq: int) -> bool:
    mark = b'","seq":%d,"t":' % seq
    with open_regular(path) as file:
        return any(mark in raw for number, raw in enumerate(file, start=1) if number > seq)


def _closing(chain: ChainReport, closings: list[int], name: str) -> tuple[AttemptClosed | None, Problem | None]:
    """Return the closing event, or what is wrong with it."""
    end, last = f"{name}:{chain.events + 1}", chain.last
    if not closings or last is None:
        torn = f", then {chain.torn_bytes} bytes of an incomplete line" if chain.torn_bytes else ""
        return None, Problem("truncated", end, f"no closing event after event {chain.events}{torn}")
    if closings[0] != chain.events:
        return None, Problem("appended", f"{name}:{closings[0] + 1}", "event after the closing event")
    if chain.torn_bytes:
        return None, Problem("appended", end, f"{chain.torn_bytes} bytes after the closing event")
    try:
        payload = last.typed()
    except BadLine as error:
        return None, Problem("inconsistent", f"{name}:{chain.events}", str(error))
    if not isinstance(payload, AttemptClosed) or (payload.events, payload.head) != (chain.events - 1, last.prev):
        return None, Problem("inconsistent", f"{name}:{chain.events}", "the closing event does not match the log")
    return payload, None
