"""Verification of one log: the first event that was changed, removed, reordered, cut off or added.

The bytes in the file are hashed as they are; each payload must also be in canonical form, which rules out duplicate keys and
every other freedom a JSON reader could be fooled with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import Json
from agentbench.core.errors import RecordError
from agentbench.trace.chain import GENESIS, BadLine, Line, read_line
from agentbench.trace.events import AttemptClosed, AttemptOpened

Kind = Literal["changed", "removed", "reordered", "truncated", "appended", "missing", "inconsistent", "unclosed"]
Watch = Callable[[Line, Mapping[str, Json]], None]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was written. `place` is a file, with a line where that makes sense."""

    kind: Kind
    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What a walk along a chain found, up to the first problem."""

    events: int
    size: int
    """Bytes of the events that were walked."""
    head: str
    last: Line | None
    torn_bytes: int
    problem: Problem | None


@dataclass(frozen=True, slots=True)
class LogReport:
    """An attempt's log: its chain, and how it opens and closes."""

    chain: ChainReport
    opened: bool
    """Whether it begins with the record that binds what the attempt is about."""
    closing: AttemptClosed | None
    problem: Problem | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def check_chain(path: Path, *, name: str = "", watch: Watch | None = None) -> ChainReport:
    """Walk along a chain and stop at the first link that does not hold. `watch` sees every event that does.

    A last line without its newline is counted in `torn_bytes` and is no problem by itself: whether a log may end like that
    depends on what it is.

    Raises:
        RecordError: the file cannot be read.
    """
    walk = _Walk(path, name or path.name, watch)
    torn = 0
    try:
        with path.open("rb") as file:
            for raw in file:
                if not raw.endswith(b"\n"):
                    torn = len(raw)
                    break
                walk.step(raw)
                if walk.problem:
                    break
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise RecordError(msg) from error
    return ChainReport(walk.count, walk.size, walk.head, walk.last, torn, walk.problem)


class _Walk:
    """One walk along a chain."""

    def __init__(self, path: Path, name: str, watch: Watch | None) -> None:
        self.path, self.name, self.watch = path, name, watch
        self.head, self.count, self.size = GENESIS, 0, 0
        self.last: Line | None = None
        self.problem: Problem | None = None

    def step(self, raw: bytes) -> None:
        try:
            line = read_line(raw[:-1])
            if not self._follows(line):
                self._stop(*self._broken(line))
                return
            value = line.value()
        except BadLine as error:
            self._stop("changed", f"event {self.count + 1} is {error}")
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

    def _broken(self, line: Line) -> tuple[Kind, str]:
        """Why this line does not follow the one before it."""
        number = self.count + 1
        if line.computed() != line.hash:
            return "changed", f"event {line.seq} was changed: its hash does not fit its content"
        if line.seq > number:
            if _stands_later(self.path, number):
                return "reordered", f"event {line.seq} stands before event {number}"
            which = f"event {number} is" if line.seq == number + 1 else f"events {number} to {line.seq - 1} are"
            return "removed", f"{which} missing"
        if line.seq < number:
            return "appended", f"event {line.seq} stands here again"
        if line.prev != self.head:
            return "changed", f"event {line.seq} does not follow the one before it: the chain was rewritten"
        return "inconsistent", f"time does not increase at event {line.seq}"

    def _stop(self, kind: Kind, message: str) -> None:
        self.problem = Problem(kind, f"{self.name}:{self.count + 1}", message)


def verify_log(path: Path, *, name: str = "", watch: Watch | None = None) -> LogReport:
    """Verify the log of an attempt that has ended: chain, closing record, nothing after it.

    Whether a log may lack its opening record depends on how far the attempt came; `opened` says whether this one has it.

    Raises:
        RecordError: the file cannot be read.
    """
    name = name or path.name
    closings: list[int] = []
    first: list[str] = []

    def look(line: Line, value: Mapping[str, Json]) -> None:
        if line.seq == 1:
            first.append(line.type)
        if line.type == AttemptClosed.type:
            closings.append(line.seq)
        if watch:
            watch(line, value)

    chain = check_chain(path, name=name, watch=look)
    closing, problem = None, chain.problem
    if problem is None:
        closing, problem = _closing(chain, closings, name)
    return LogReport(chain, first == [AttemptOpened.type], closing, problem)


def _stands_later(path: Path, seq: int) -> bool:
    mark = b'","seq":%d,"t":' % seq
    with path.open("rb") as file:
        return any(mark in raw for number, raw in enumerate(file, start=1) if number > seq)


def _closing(chain: ChainReport, closings: list[int], name: str) -> tuple[AttemptClosed | None, Problem | None]:
    """The closing record and what is wrong with it."""
    end, last = f"{name}:{chain.events + 1}", chain.last
    if not closings or last is None:
        torn = f", then {chain.torn_bytes} bytes of an unfinished line" if chain.torn_bytes else ""
        return None, Problem("truncated", end, f"no closing record after event {chain.events}{torn}")
    if closings[0] != chain.events:
        return None, Problem("appended", f"{name}:{closings[0] + 1}", "an event follows the closing record")
    if chain.torn_bytes:
        return None, Problem("appended", end, f"{chain.torn_bytes} bytes follow the closing record")
    try:
        payload = last.typed()
    except BadLine as error:
        return None, Problem("inconsistent", f"{name}:{chain.events}", str(error))
    if not isinstance(payload, AttemptClosed) or (payload.events, payload.head) != (chain.events - 1, last.prev):
        return None, Problem("inconsistent", f"{name}:{chain.events}", "the closing record does not fit the log")
    return payload, None
