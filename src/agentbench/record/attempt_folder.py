"""One attempt's folder: where its evidence lies, and the list of it that is sealed when the attempt ends.

    <task_dir>/
      task.yaml        the task as it was run
      manifest.json    what was planned and found, before the agent acted
      events.jsonl     the attempt's chain
      logs/  agent/  diffs/  meta/  blobs/
      repo/            optional copy of the final tree: a convenience, not evidence (R and the patch give it again)
      meta/record.json the record as the chain seals it
      meta/files.json  every evidence file with its digest

`tasks/<task_id>` is the first attempt at the first repeat; others are `tasks/<task_id>@r<repeat>` and, for retries,
`tasks/<task_id>@r<repeat>a<attempt>`. `@` cannot be part of a task id, so the names never meet.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentbench.core.canonical import Json, canonical, sha256_hex
from agentbench.core.errors import InputError, RecordError
from agentbench.record.durable import failed, write_atomic
from agentbench.record.manifest import Manifest, write_manifest
from agentbench.trace.blobs import BlobStore
from agentbench.trace.json_safe import sound
from agentbench.trace.log import EventLog
from agentbench.trace.redaction import Redactor

EVENTS = "events.jsonl"
MANIFEST = "manifest.json"
FINAL_PATCH = "diffs/final.patch"
RECORD = "meta/record.json"
FILES = "meta/files.json"
SUBFOLDERS = ("logs", "agent", "diffs", "meta")
NOT_EVIDENCE = frozenset({"repo"})

_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CHUNK = 1 << 20


def task_dir_name(task_id: str, repeat: int, attempt: int) -> str:
    """The folder of an attempt, relative to the run directory.

    Raises:
        InputError: the id cannot be a folder's name.
    """
    if not _TASK_ID.fullmatch(task_id):
        msg = f"task id {task_id!r}: expected letters, digits, '.', '_', '-', beginning with a letter or digit"
        raise InputError(msg)
    if repeat == 1 and attempt == 1:
        return f"tasks/{task_id}"
    return f"tasks/{task_id}@r{repeat}" + (f"a{attempt}" if attempt > 1 else "")


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """Where one attempt writes."""

    run: Path
    task_dir: str
    attempt_id: str
    task_id: str
    repeat: int
    attempt: int
    supersedes: str | None = None
    redact: Redactor | None = None
    run_id: str = ""
    study_id: str = ""

    @property
    def path(self) -> Path:
        return self.run / self.task_dir

    def make(self) -> None:
        """Make the folder and its parts (also what is missing of them, after a crash)."""
        try:
            for name in SUBFOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise failed("create", self.path, error) from error

    def open_log(self) -> EventLog:
        return EventLog.create(self.path / EVENTS, redact=self.redact)

    def reopen_log(self) -> EventLog:
        """Continue the log of an attempt whose process died, so that it can be ended properly.

        The bytes of an unfinished last line are kept in `meta/torn_line.bin`.
        """
        self.make()
        if not (self.path / EVENTS).exists():
            return self.open_log()
        log, torn = EventLog.reopen(self.path / EVENTS, redact=self.redact)
        if torn:
            write_atomic(self.path / "meta/torn_line.bin", torn)
        return log

    def blobs(self) -> BlobStore:
        return BlobStore(self.path / "blobs", redact=self.redact)

    def write(self, name: str, data: bytes | str) -> str:
        """Write one file of the folder; its path relative to the run directory. Secrets are replaced.

        Raises:
            RecordError: it could not be written.
        """
        content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        return self.write_exact(name, self.redact.data(content) if self.redact else content)

    def write_exact(self, name: str, data: bytes) -> str:
        """The same without touching the content: for the patch, whose digest is part of the verdict."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise failed("write", target, error) from error
        return f"{self.task_dir}/{name}"

    def write_manifest(self, manifest: Manifest) -> str:
        """Write `manifest.json`; its SHA-256."""
        return write_manifest(self.path / MANIFEST, manifest, redact=self.redact)

    def evidence_bytes(self) -> int:
        """How much is kept of the attempt so far."""
        return sum((self.path / name).stat().st_size for name in (*evidence_files(self.path), EVENTS))

    def seal_files(self) -> str:
        """Write the list of evidence files, each safe on disk; the SHA-256 of the list."""
        listed: dict[str, Json] = {}
        for name in evidence_files(self.path):
            sha256, size = hash_file(self.path / name, durable=True)
            listed[sound(name)] = {"sha256": sha256, "size": size}
        data = canonical({"files": listed, "schema_version": 1}) + b"\n"
        write_atomic(self.path / FILES, data)
        return sha256_hex(data)


def evidence_files(folder: Path) -> Iterator[str]:
    """Every file below an attempt's folder that is evidence, sorted; not the chain and the list, which are sealed apart.

    Raises:
        RecordError: an entry that is neither file nor folder (nobody of ours makes one).
    """
    for base, folders, files in os.walk(folder, onerror=_raise):
        inside = Path(base).relative_to(folder)
        folders[:] = sorted(name for name in folders if (inside / name).as_posix() not in NOT_EVIDENCE)
        for name in (*sorted(files), *(name for name in folders if (Path(base) / name).is_symlink())):
            relative = (inside / name).as_posix()
            if relative in {EVENTS, FILES}:
                continue
            if not (Path(base) / name).is_file() or (Path(base) / name).is_symlink():
                msg = f"{Path(base) / name} is neither a file nor a folder"
                raise RecordError(msg)
            yield relative


def hash_file(path: Path, *, durable: bool = False) -> tuple[str, int]:
    """SHA-256 and size of a file.

    Raises:
        RecordError: it cannot be read.
    """
    state = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                state.update(chunk)
                size += len(chunk)
            if durable:
                os.fsync(file.fileno())
    except OSError as error:
        raise failed("read", path, error) from error
    return state.hexdigest(), size


def content(path: Path) -> bytes | None:
    """What a plain file holds; None when there is none (a link, pipe or folder in its place is not opened)."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise failed("read", path, error) from error


def _raise(error: OSError) -> None:
    raise failed("read", Path(error.filename or ""), error) from error
