"""Where a machine keeps what outlives one command: prepared layers, caches, and the folders of live owners.

    <state>/layers/u<uid>/<kind>/<key>/<build>/   frozen layers, see layers.py
    <state>/downloads/u<uid>/                     package downloads, seen by setup only
    <state>/server/<key>/                         the command server, compiled for one interpreter
    <state>/live/<owner>/                         one per running backend, locked while it lives

An owner's folder is locked by an open file description that only that backend's harness and spawner hold. Who can take
the lock has proven that both are dead, whatever became of their process ids.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench.core.errors import SandboxError
from agentbench.core.file_lock import try_lock
from agentbench.core.ids import new_ulid
from agentbench.sandbox.bwrap.spawn.main import remove_tree


def default_state(environ: Mapping[str, str] | None = None) -> Path:
    """$AB_STATE, or $XDG_CACHE_HOME/agentbench, or ~/.cache/agentbench.

    It may lie under a home that the sandbox's user cannot enter: its folders are bound into a sandbox before rights drop.
    """
    env = os.environ if environ is None else environ
    if env.get("AB_STATE"):
        return Path(env["AB_STATE"]).absolute()
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]).absolute() / "agentbench"
    return Path.home() / ".cache" / "agentbench"


_BEING_MADE_SEC = 60


class Owner:
    """The folder of one live backend."""

    def __init__(self, state: Path) -> None:
        """
        Raises:
            SandboxError: the state folder cannot be written.
        """
        self.name = new_ulid().lower()
        self.folder = state / "live" / self.name
        hidden = state / "live" / f".{self.name}"
        try:
            hidden.mkdir(parents=True)
            self.lock_fd = os.open(hidden / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try_lock(self.lock_fd)
            # Under its real name only once it is locked: nobody takes it for a dead owner's.
            hidden.rename(self.folder)
        except OSError as error:
            msg = f"the state folder {state} cannot be written: {error.strerror}"
            raise SandboxError(msg, remedy="set AB_STATE to a folder that can") from error

    def declare(self, cgroups: Sequence[Path]) -> None:
        """Write down what a successor must remove if we cannot."""
        text = json.dumps({"pid": os.getpid(), "cgroups": [str(path) for path in cgroups]})
        (self.folder / "owner.json").write_text(text)

    def release(self) -> None:
        """Our own hold on it; the spawner's ends with the spawner."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1


def remove_leftovers(state: Path) -> list[str]:
    """Remove what dead owners left: their processes (if any still live), cgroups and folders. Their names."""
    removed = []
    live = state / "live"
    for folder in sorted(live.iterdir()) if live.is_dir() else []:
        fd = _take(folder)
        if fd is None:
            continue
        try:
            for group in _declared_cgroups(folder):
                remove_cgroup(group)
            remove_tree(str(folder))
            removed.append(folder.name)
        finally:
            os.close(fd)
    return removed


def _take(folder: Path) -> int | None:
    """The lock of an owner that is dead, or None."""
    if folder.name.startswith(".") and _age_sec(folder) <= _BEING_MADE_SEC:
        # Somebody is between making the folder and holding its lock: whoever took the lock first would take it from them.
        return None
    try:
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Killed between making the folder and its lock, or being removed right now: a hidden name means the former.
        if folder.name.startswith("."):
            remove_tree(str(folder))
        return None
    except OSError:
        return None
    if not try_lock(fd):
        os.close(fd)
        return None
    return fd


def _age_sec(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def _declared_cgroups(folder: Path) -> list[Path]:
    try:
        declared = json.loads((folder / "owner.json").read_text())["cgroups"]
    except (OSError, ValueError, KeyError):
        return []
    # The file is ours, but what is removed by name is checked by name all the same.
    return [Path(path) for path in declared if Path(path).name == f"agentbench-{folder.name}"]


def remove_cgroup(folder: Path, *, patience_sec: float = 2.0) -> None:
    """Kill what lives in a group and its children, and remove them."""
    limit = time.monotonic() + patience_sec
    while folder.is_dir() and time.monotonic() < limit:
        for group in [*(path for path in folder.iterdir() if path.is_dir()), folder]:
            for pid in _members(group):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.002)


def _members(group: Path) -> list[int]:
    try:
        # A member in another pid namespace is listed as 0, and a signal to 0 would be a signal to ourselves.
        return [pid for line in (group / "cgroup.procs").read_text().split() if (pid := int(line)) > 0]
    except (OSError, ValueError):
        return []
