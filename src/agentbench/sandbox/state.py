"""The state folder: prepared layers, caches, and the folders of live owners (running backends).

    <state>/layers/<store>/<kind>/<key>/<build>/  frozen layers, see environments/layers.py; one store per user (u<uid>)
                                                  or docker engine (docker-<id>)
    <state>/downloads/<key>/                      package downloads of one base repository, seen by its setups only
    <state>/etc/<key>/                            a sandbox's /etc, with the command server for one interpreter
    <state>/live/<owner>/                         one per running backend, locked while it runs

An owner's folder is locked by an open file description that only its harness and its spawner hold. A process that gets
the lock therefore knows that both are dead, even if their process ids are in use again.
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
from agentbench.sandbox.cgroups import read_text


def default_state(environ: Mapping[str, str] | None = None) -> Path:
    """Return $AB_STATE, $XDG_CACHE_HOME/agentbench or ~/.cache/agentbench.

    The folder may be unreadable for the sandbox's user: it is bound into a sandbox before privileges are dropped.
    """
    env = os.environ if environ is None else environ
    if env.get("AB_STATE"):
        return Path(env["AB_STATE"]).absolute()
    if env.get("XDG_CACHE_HOME"):
        return Path(env["XDG_CACHE_HOME"]).absolute() / "agentbench"
    return Path.home() / ".cache" / "agentbench"


_CREATION_SEC = 60


class Owner:
    """A running backend, represented by its locked folder."""

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
            # Renamed only once it is locked, so that it is never mistaken for a dead owner's folder.
            hidden.rename(self.folder)
        except OSError as error:
            msg = f"cannot write to the state folder {state}: {error.strerror}"
            raise SandboxError(msg, remedy="set AB_STATE to a writable folder") from error

    def record_cgroups(self, cgroups: Sequence[Path]) -> None:
        """Record the cgroups that the next harness must remove if this one is killed."""
        text = json.dumps({"pid": os.getpid(), "cgroups": [str(path) for path in cgroups]})
        (self.folder / "owner.json").write_text(text)

    def release(self) -> None:
        """Release this process's lock. The spawner's copy ends with the spawner."""
        if self.lock_fd >= 0:
            os.close(self.lock_fd)
            self.lock_fd = -1


def remove_leftovers(state: Path) -> list[str]:
    """Remove the processes, cgroups and folders that dead owners left, and return the names of those owners."""
    removed = []
    live = state / "live"
    for folder in sorted(live.iterdir()) if live.is_dir() else []:
        fd = _lock_if_dead(folder)
        if fd is None:
            continue
        try:
            for group in _recorded_cgroups(folder):
                remove_cgroup(group)
            remove_tree(str(folder))
            removed.append(folder.name)
        finally:
            os.close(fd)
    return removed


def _lock_if_dead(folder: Path) -> int | None:
    """Return a locked descriptor if the folder's owner is dead, else None."""
    if folder.name.startswith(".") and age_sec(folder) <= _CREATION_SEC:
        # Its owner may be between creating the folder and locking it; taking the lock now would break that owner.
        return None
    try:
        fd = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        # Either the owner was killed before it created the lock (the name is hidden), or the folder is being removed.
        if folder.name.startswith("."):
            remove_tree(str(folder))
        return None
    except OSError:
        return None
    if not try_lock(fd):
        os.close(fd)
        return None
    return fd


def age_sec(path: Path) -> float:
    """Return the seconds since the last change; 0 if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _recorded_cgroups(folder: Path) -> list[Path]:
    try:
        recorded = json.loads((folder / "owner.json").read_text())["cgroups"]
    except (OSError, ValueError, KeyError):
        return []
    # Removes nothing but this owner's groups, even if the file was tampered with.
    return [Path(path) for path in recorded if Path(path).name == f"agentbench-{folder.name}"]


def remove_cgroup(folder: Path, *, timeout_sec: float = 2.0) -> None:
    """Kill the processes in a group and its children, and remove the groups."""
    deadline = time.monotonic() + timeout_sec
    while folder.is_dir() and time.monotonic() < deadline:
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
    # A process in another pid namespace is listed as 0, and a signal to 0 would reach the harness itself.
    return [pid for line in read_text(group / "cgroup.procs").split() if (pid := int(line)) > 0]
