"""Features of this host's bubblewrap and kernel."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from agentbench.core.errors import HarnessError
from agentbench.process import run_host

_MEMORY_FOLDER = Path("/dev/shm")
_TMPFS_USER_ATTRIBUTES = (6, 6)


@lru_cache(maxsize=4)
def bwrap_version(program: str) -> tuple[int, ...]:
    """Return the version, like (0, 8, 0), or an empty tuple if unknown."""
    try:
        output = run_host([program, "--version"], env={}, timeout_sec=10).stdout.kept.decode("ascii", "replace")
    except HarnessError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", output)[:3])


def kernel_version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


@lru_cache(maxsize=1)
def tmpfs_has_user_attributes() -> bool:
    """Return whether a tmpfs can be the writable layer of an ordinary user's overlay.

    Such an overlay stores its metadata in `user.*` attributes, which tmpfs supports since Linux 6.6. Without them a
    removed folder cannot be created again, so the writable layer has to be on disk.
    """
    with contextlib.suppress(OSError), tempfile.NamedTemporaryFile(dir=_MEMORY_FOLDER) as file:
        try:
            os.setxattr(file.fileno(), "user.agentbench", b"y")
        except OSError:
            return False
        return True
    return kernel_version() >= _TMPFS_USER_ATTRIBUTES
