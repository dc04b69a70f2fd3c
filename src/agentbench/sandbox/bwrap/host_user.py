"""Under which user a sandbox runs on the host."""

from __future__ import annotations

import os
from pathlib import Path

PREFERRED_UID = 1_900_000_107
"""Used when the harness is root. Outside of what distributions, systemd and container engines give to people, services,
dynamic users and containers (systemd's table ends its container range at 1,879,048,191), and not `nobody`, which may own
files and use reserved disk blocks."""

_FULL_RANGE = 4_294_967_295
_NOBODY = 65_534


def sandbox_uid() -> int | None:
    """The uid and gid to drop to; None when the harness is an ordinary user and sandboxes run as that user."""
    if os.geteuid() != 0:
        return None
    return choose(Path("/proc/self/uid_map").read_text(), Path("/proc/self/gid_map").read_text())


def choose(uid_map: str, gid_map: str) -> int:
    """The preferred uid, or in a container that does not map it, the highest one that is mapped and not `nobody`."""
    candidates: list[int] = [PREFERRED_UID, *range(_top(uid_map), 0, -1)]
    for candidate in candidates:
        if candidate != _NOBODY and _maps(uid_map, candidate) and _maps(gid_map, candidate):
            return candidate
    return PREFERRED_UID


def in_initial_namespace() -> bool:
    """Only there can root set `trusted.*` attributes, which an overlay of root's uses."""
    fields = Path("/proc/self/uid_map").read_text().split()
    return len(fields) == 3 and int(fields[2]) >= _FULL_RANGE


def _ranges(text: str) -> list[tuple[int, int]]:
    fields = [line.split() for line in text.splitlines()]
    return [(int(first), int(first) + int(count)) for first, _, count in fields]


def _maps(text: str, uid: int) -> bool:
    return any(first <= uid < end for first, end in _ranges(text))


def _top(text: str) -> int:
    return min(max((end for _, end in _ranges(text)), default=1) - 1, 1_000_000)
