"""A command to run in a sandbox, and what came of it. Exit codes and timeouts are data, not exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Command:
    """One shell command line or one argument vector.

    `env` is added to the sandbox's own environment. `keep_bytes` bounds what is kept of each stream (the first and the
    last half of it); digests and counts are over everything that was written.
    """

    line: str | None = None
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_sec: float = 120.0
    stdin: bytes = b""
    keep_bytes: int = 1 * MIB
    side_channel: bool = False
    """Give the command a write-only descriptor of its own, named by $AB_RESULT_FD; see `Completed.side`."""
    side_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        if (self.line is None) == (not self.argv):
            msg = "a command is either a shell line or an argument vector"
            raise ValueError(msg)

    def __str__(self) -> str:
        return self.line if self.line is not None else " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class Stream:
    """One captured stream: `head + tail` when nothing was dropped, else the two ends of it."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0
    sha256: str = ""

    @property
    def dropped_bytes(self) -> int:
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def kept(self) -> bytes:
        if not self.dropped_bytes:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes dropped ...]\n" % self.dropped_bytes + self.tail


@dataclass(frozen=True, slots=True)
class Completed:
    """What came of a command.

    `exit_code` is None when it was killed for time; a death by signal N is 128+N with `signal` set.
    `killed` counts processes the command left behind, which were ended. `oom` is true when the kernel killed a
    process of this sandbox for memory while the command ran.
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

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out
