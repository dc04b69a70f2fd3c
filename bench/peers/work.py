"""The work that everybody does, and how what was measured of it is handed over.

Runs with each peer's own Python, so it needs the standard library alone. A runner is started as
`python -m bench.peers.run_NAME WORK OUT [more]` in a folder of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

QUESTION = "Where is the answer?\n"
CALLS = {"true": "true", "cat": "cat question.txt"}
ATTEMPT = (
    "ls",
    "ls *.txt",
    "cat question.txt",
    "grep -rn answer .",
    "true",
    "cat question.txt",
    "echo done > answer.txt",
    "cat answer.txt",
    "cat answer.txt",
    "ls",
)
CHECK = "test -f answer.txt"
PATCH = "--- /dev/null\n+++ b/answer.txt\n@@ -0,0 +1 @@\n+done\n"
WARM = 3
"""Calls of each kind before those that count."""


@dataclass(frozen=True)
class Work:
    """How often, and on what."""

    image: str
    """Has question.txt in /workspace (user 1000) and in /testbed (root, a git repository)."""
    times: int
    attempts: dict[str, int]
    """Attempts by the number of workers."""


@dataclass
class Found:
    """What a runner measured: milliseconds of calls by kind, seconds of many attempts (or gradings) by workers."""

    calls: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in CALLS})
    attempts: dict[str, dict[str, float]] = field(default_factory=dict)
    gradings: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def repeat(self, call: Callable[[str], None], times: int) -> None:
        """Make each kind of call so many times."""
        for name, line in CALLS.items():
            for number in range(-WARM, times):
                start = time.perf_counter()
                call(line)
                if number >= 0:
                    self.calls[name].append((time.perf_counter() - start) * 1000)

    async def repeat_async(self, call: Callable[[str], Awaitable[None]], times: int) -> None:
        """The same for who cannot wait otherwise."""
        for name, line in CALLS.items():
            for number in range(-WARM, times):
                start = time.perf_counter()
                await call(line)
                if number >= 0:
                    self.calls[name].append((time.perf_counter() - start) * 1000)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def given() -> tuple[Work, Path]:
    """What the driver says: the work, and where the result goes."""
    return Work(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), Path(sys.argv[2]).absolute()
