"""A command to run in a sandbox, and its result. Exit codes and timeouts are data, not exceptions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field

from agentbench.core.dataclass import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """One shell command line or one argument vector.

    `env` is added to the sandbox's environment. Of each stream the first and last `keep_bytes / 2` bytes are kept; digests
    and sizes cover all of it.
    """

    line: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_sec: float = 120.0
    stdin: bytes = b""
    keep_bytes: int = 1 * MIB
    side_channel: bool = False
    """Give the command a write-only descriptor, named by $AB_RESULT_FD. `Completed.side` has what it wrote."""
    side_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        if (self.line is None) == (not self.argv):
            raise ValueError("a command is either a shell line or an argument vector")

    def __str__(self) -> str:
        return self.line if self.line is not None else " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class Stream:
    """A captured stream: `head + tail`, with `dropped_bytes` missing in between."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0
    sha256: str = ""

    @classmethod
    def of(cls, data: bytes) -> Stream:
        """Wrap output that is known completely."""
        return cls(head=data, total_bytes=len(data), sha256=hashlib.sha256(data).hexdigest())

    @property
    def dropped_bytes(self) -> int:
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def kept(self) -> bytes:
        if not self.dropped_bytes:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes dropped ...]\n" % self.dropped_bytes + self.tail

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """Numbers of programs that an observed command started."""

    started: int
    """All programs whose start was seen."""
    dropped: int
    """Seen but not recorded, because the log is bounded. Above 0 the record is incomplete."""
    refused: int
    """Not allowed to start, because their arguments could not be read."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a command.

    `exit_code` is None if the command timed out, and 128+N if signal N killed it (`signal` is then set). `killed` counts
    the processes that the command left behind and that were killed. `oom` is true if the kernel killed a process of this
    sandbox for lack of memory while the command ran.
    """

    exit_code: int | None
    stdout: Stream
    stderr: Stream
    duration_sec: float
    timed_out: bool = False
    signal: int | None = None
    killed: int = 0
    oom: bool = False
    side: bytes = b""
    side_truncated: bool = False
    processes: ProcessCounts | None = None
    """None if the command was not observed."""

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out
