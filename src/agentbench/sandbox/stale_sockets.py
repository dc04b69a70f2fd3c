"""Doors of attempts whose harness was killed: a socket on which nobody listens any more, in a folder that nobody needs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import time
from pathlib import Path

YOUNG_SEC = 60.0
"""Between the making of a socket and the first `listen` on it nobody listens either: what is so young stays."""


def remove_stale(folder: Path) -> int:
    """Remove the doors below `folder` that are shut for good; how many."""
    removed = 0
    for one in _folders(folder):
        door = next((one / "door").glob("*.sock"), None)
        if door is not None and _old(door) and _refused(door):
            shutil.rmtree(one, ignore_errors=True)
            removed += 1
    return removed


def _folders(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [one for one in folder.iterdir() if one.is_dir() and not one.is_symlink()]
    return []


def _old(door: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - door.stat().st_mtime > YOUNG_SEC
    return False


def _refused(door: Path) -> bool:
    """Whether nobody listens. A full queue is somebody, too."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as sock:
        sock.setblocking(False)
        parent = os.open(door.parent, os.O_PATH | os.O_DIRECTORY)
        try:
            sock.connect(f"/proc/self/fd/{parent}/{door.name}")
        except ConnectionRefusedError:
            return True
        finally:
            os.close(parent)
    return False
