"""Locks that worked, kept on disk by what was asked: the packaging of a repository, the interpreter and the indexes.

A later command with the same packaging installs the lock at once instead of asking pip for releases again.
"""

from __future__ import annotations

import datetime as dt
import platform
import threading
from dataclasses import field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.core.atomic_file import write_atomic
from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import WorkspaceError
from agentbench.core.package_settings import host_settings

_SCHEMA = 2
"""Part of every key. Raise it when locks are made differently."""


class KnownLock(BaseModel):
    """A pinned environment that worked for some packaging at some time."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    cutoff: str
    """No release after this moment was used, unless a requirement asked for it."""
    commands: tuple[str, ...]
    freeze: tuple[str, ...]
    plan: str


class _KnownLockFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    locks: tuple[KnownLock, ...]


@dataclass
class KnownLocks:
    """The locks of one state folder. Safe for threads; of two processes that add at once, one lock may be lost."""

    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, state: Path, asked: Json) -> tuple[KnownLock, ...]:
        """Return the locks for what is asked; none if the file is damaged."""
        try:
            return _KnownLockFile.model_validate_json(_file(state, asked).read_bytes()).locks
        except (OSError, ValidationError):
            return ()

    def add(self, state: Path, asked: Json, lock: KnownLock) -> None:
        """Keep a lock, unless its day is not over: more releases may follow.

        Raises:
            WorkspaceError: the state folder cannot be written.
        """
        if lock.cutoff >= dt.datetime.now(dt.UTC).date().isoformat():
            return
        file = _file(state, asked)
        with self._lock:
            locks = (*(known for known in self.find(state, asked) if known.cutoff != lock.cutoff), lock)
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(file, _KnownLockFile(locks=locks).model_dump_json().encode())
            except OSError as error:
                raise WorkspaceError(f"cannot write the state folder {file.parent}: {error.strerror}") from error


def _file(state: Path, asked: Json) -> Path:
    addresses: list[Json] = list(host_settings().addresses())
    key = digest([_SCHEMA, platform.machine(), addresses, asked])
    return state / "locks" / f"{key.removeprefix('sha256:')[:40]}.json"
