"""Another Python, for what a test cannot do to itself: die, change the user, mount. Never a fork: test runners have threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
    """Start a program that finds our tests and sources; its arguments are `sys.argv[1:]`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )


def run(code: str, *arguments: object, pass_fds: tuple[int, ...] = ()) -> tuple[int, bytes]:
    """Its exit code and what it wrote."""
    with start(code, *arguments, pass_fds=pass_fds) as child:
        try:
            written, _ = child.communicate(timeout=100)
        finally:
            child.kill()
    return child.returncode, written
