"""Child Python processes for tests that need to die, change the user or mount.

They are spawned, not forked, because test runners have threads.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a program that can import tests and sources. `arguments` become `sys.argv[1:]`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def run(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> tuple[int, bytes]:
    """Run a program. Return its exit code and output."""
    with start(code, *arguments, pass_fds=pass_fds) as child:
        try:
            output, _ = child.communicate(timeout=600)
        finally:
            child.kill()
    return child.returncode, output
