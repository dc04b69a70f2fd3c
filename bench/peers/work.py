"""Define the work that every harness does and the format of its measurements.

Runs with each peer's own Python, so it may import only the standard library. A runner is started as
`python -m bench.peers.run_NAME WORK OUT [more]` in its own folder.
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
    *("ls", "ls *.txt", "cat question.txt", "grep -rn answer .", "true", "cat question.txt"),
    *("echo done > answer.txt", "cat answer.txt", "cat answer.txt", "ls"),
)
CHECK = "test -f answer.txt"
PATCH = "--- /dev/null\n+++ b/answer.txt\n@@ -0,0 +1 @@\n+done\n"
WARM = 3
"""Warm-up calls of each kind, not measured."""


@dataclass(frozen=True)
class Work:
    """The image and the numbers of repetitions."""

    image: str
    """Contains question.txt in /workspace (user 1000) and in /testbed (root, a git repository)."""
    times: int
    attempts: dict[str, int]
    """Number of attempts by number of workers."""


@dataclass
class Measurements:
    """Results of a runner: milliseconds of each call by kind, total seconds of attempts and gradings by workers."""

    calls: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in CALLS})
    attempts: dict[str, dict[str, float]] = field(default_factory=dict)
    gradings: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def repeat(self, call: Callable[[str], None], times: int) -> None:
        """Measure each kind of call this many times."""
        for name, line in CALLS.items():
            for number in range(-WARM, times):
                start = time.perf_counter()
                call(line)
                if number >= 0:
                    self.calls[name].append((time.perf_counter() - start) * 1000)

    async def repeat_async(self, call: Callable[[str], Awaitable[None]], times: int) -> None:
        """Measure asynchronous calls like `repeat`."""
        for name, line in CALLS.items():
            for number in range(-WARM, times):
                start = time.perf_counter()
                await call(line)
                if number >= 0:
                    self.calls[name].append((time.perf_counter() - start) * 1000)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_arguments() -> tuple[Work, Path]:
    """Return the work and the output path from the command line."""
    return Work(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), Path(sys.argv[2]).absolute()
