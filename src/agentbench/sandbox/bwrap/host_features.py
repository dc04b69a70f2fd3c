"""Features of this host's bubblewrap and kernel, and the host user that sandboxes run as."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from functools import lru_cache
from itertools import chain
from pathlib import Path

from agentbench.core.errors import HarnessError
from agentbench.process import run_host

_MEMORY_FOLDER = Path("/dev/shm")
_TMPFS_USER_ATTRIBUTES = (6, 6)
PREFERRED_UID = 1_900_000_107
"""Used when the harness is root. It lies outside the ranges that distributions, systemd and container engines assign to
people, services, dynamic users and containers (systemd's container range ends at 1,879,048,191). The overflow uid
65534 is unsuitable: it may own files and use reserved disk blocks."""

_FULL_RANGE = 4_294_967_295
_OVERFLOW_UID = 65_534


@lru_cache(maxsize=4)
def bwrap_version(program: str) -> tuple[int, ...]:
    """Return the version, like (0, 8, 0), or an empty tuple if unknown."""
    try:
        output = run_host([program, "--version"], env={}, timeout_sec=10).stdout.kept.decode("ascii", "replace")
    except HarnessError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", output)[:3])


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
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) >= _TMPFS_USER_ATTRIBUTES


def sandbox_uid() -> int | None:
    """Return the uid and gid to drop to, or None if the harness is an ordinary user and sandboxes run as that user."""
    if os.geteuid() != 0:
        return None
    return choose_uid(Path("/proc/self/uid_map").read_text(), Path("/proc/self/gid_map").read_text())


def choose_uid(uid_map: str, gid_map: str) -> int:
    """Return the preferred uid, or if a container does not map it, the highest mapped one except the overflow uid."""
    for candidate in chain([PREFERRED_UID], range(_highest_uid(uid_map), 0, -1)):
        if candidate != _OVERFLOW_UID and _maps(uid_map, candidate) and _maps(gid_map, candidate):
            return candidate
    return PREFERRED_UID


def in_initial_namespace() -> bool:
    """Return whether root is real root: only then can it set the `trusted.*` attributes that its overlays use."""
    fields = Path("/proc/self/uid_map").read_text().split()
    return len(fields) == 3 and int(fields[2]) >= _FULL_RANGE


def _ranges(text: str) -> list[tuple[int, int]]:
    fields = [line.split() for line in text.splitlines()]
    return [(int(first), int(first) + int(count)) for first, _, count in fields]


def _maps(text: str, uid: int) -> bool:
    return any(first <= uid < end for first, end in _ranges(text))


def _highest_uid(text: str) -> int:
    return min(max((end for _, end in _ranges(text)), default=1) - 1, 1_000_000)
