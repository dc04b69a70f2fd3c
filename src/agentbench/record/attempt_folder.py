"""An attempt's folder: its layout, and the list of evidence files that is sealed when the attempt ends.

    <task_dir>/
      task.yaml        the task as it was run
      manifest.json    the plan and the observed environment
      events.jsonl     the attempt's chain
      logs/  agent/  diffs/  meta/  blobs/
      repo/            optional copy of the workspace; meta/workspace.json has its digest
      meta/record.json the record that the chain seals
      meta/originals.json  what a restricted store keeps of this attempt, with salted digests; absent if it keeps nothing
      meta/files.json  every evidence file with its digest

`tasks/<task_id>` is the first attempt at the first repeat; others are `tasks/<task_id>@r<repeat>` and, for retries,
`tasks/<task_id>@r<repeat>a<attempt>`. A task id cannot contain `@`, so names are unambiguous.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path

from agentbench.core.canonical import Json, canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.regular_file import open_regular
from agentbench.record.durable import write_atomic
from agentbench.record.manifest import Manifest, write_manifest
from agentbench.trace.blobs import BlobStore
from agentbench.trace.json_safe import valid_utf8
from agentbench.trace.log import EventLog
from agentbench.trace.originals import EvidenceText, OriginalsWriter, of_file, withheld
from agentbench.trace.redaction import Redactor, redact_bytes

EVENTS = "events.jsonl"
MANIFEST = "manifest.json"
TASK_FILE = "task.yaml"
FINAL_PATCH = "diffs/final.patch"
RECORD = "meta/record.json"
FILES = "meta/files.json"
ORIGINALS = "meta/originals.json"
SUBFOLDERS = ("logs", "agent", "diffs", "meta")
BLOBS = "blobs"
WORKSPACE = "repo"
WORKSPACE_LIST = "meta/workspace.json"
NOT_EVIDENCE = frozenset({WORKSPACE})

_TASK_DIR = re.compile(r"tasks/[A-Za-z0-9][A-Za-z0-9._-]{0,127}(@r[0-9]+(a[0-9]+)?)?")
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CHUNK = 1 << 20
MAX_CONTENT = 1024**3
"""Files that are read as a whole are much smaller."""


def attempt_path(run: Path, task_dir: str) -> Path:
    """Return the folder of an attempt that a record or an event names.

    Raises:
        RecordError: it would not be a folder below `tasks`.
    """
    if not is_task_dir(task_dir):
        raise RecordError(
            f"{run}: {task_dir!r} is not an attempt folder", remedy="run `ab verify` to see what was changed"
        )
    return run / task_dir


def is_task_dir(task_dir: str) -> bool:
    """Return whether a path is that of an attempt's folder, relative to the run directory."""
    return _TASK_DIR.fullmatch(task_dir) is not None


def task_dir_name(task_id: str, repeat: int, attempt: int) -> str:
    """Return the folder of an attempt, relative to the run directory.

    Raises:
        InputError: the id cannot be a folder name.
    """
    if not _TASK_ID.fullmatch(task_id):
        msg = f"task id {task_id!r}: expected letters, digits, '.', '_' and '-', starting with a letter or digit"
        raise InputError(msg)
    if repeat == 1 and attempt == 1:
        return f"tasks/{task_id}"
    return f"tasks/{task_id}@r{repeat}" + (f"a{attempt}" if attempt > 1 else "")


@dataclass(frozen=True, slots=True)
class AttemptFolder:
    """The folder that one attempt writes to."""

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
    text: EvidenceText = "redacted"
    originals: OriginalsWriter | None = None
    """Receives text that is redacted or withheld; None if redacted text is not kept."""

    @property
    def withholds_text(self) -> bool:
        """Whether the folder has digests instead of text."""
        return self.originals is not None and self.originals.withhold

    @property
    def path(self) -> Path:
        return self.run / self.task_dir

    def with_own_redactor(self) -> AttemptFolder:
        """Return the folder with a redactor that other attempts do not share, so that values can be added to it."""
        return replace(self, redact=(self.redact or Redactor({}, shapes=False)).copy())

    def make(self) -> None:
        """Create the folder and its subfolders; those that exist stay."""
        try:
            for name in SUBFOLDERS:
                (self.path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError.of("create", self.path, error) from error

    def open_log(self) -> EventLog:
        return EventLog.create(self.path / EVENTS, redact=self.redact, originals=self.originals)

    def reopen_log(self) -> EventLog:
        """Reopen the log of an attempt whose process died, so that it can be closed.

        An incomplete last line is saved in `meta/torn_line.bin`.
        """
        self.make()
        if not (self.path / EVENTS).exists():
            return self.open_log()
        log, torn = EventLog.reopen(self.path / EVENTS, redact=self.redact, originals=self.originals)
        if torn:
            write_atomic(self.path / "meta/torn_line.bin", torn)
        return log

    def blobs(self) -> BlobStore:
        return BlobStore(self.path / BLOBS, redact=self.redact, originals=self.originals)

    def write(self, name: str, data: bytes | str) -> str:
        """Write one file with secrets redacted, and return its path relative to the run directory.

        Raises:
            RecordError: the file cannot be written.
        """
        content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        return self.write_exact(name, self.evidence_of(name, content, redact_bytes(content, self.redact)))

    def write_derived(self, name: str, data: bytes | str) -> str:
        """Write one file that was made from the log as it is on disk, where text is withheld already."""
        content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        return self.write_exact(name, redact_bytes(content, self.redact))

    def evidence_of(self, name: str, exact: bytes, redacted: bytes) -> bytes:
        """Return what may be written of a file, and have its original kept if that differs."""
        shown = withheld(exact).encode() + b"\n" if self.withholds_text and exact else redacted
        if self.originals is not None and shown != exact:
            self.originals.keep(of_file(name), exact)
        return shown

    def write_exact(self, name: str, data: bytes) -> str:
        """Write one file as it is: for the patch, whose digest is part of the verdict."""
        target = self.path / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            raise RecordError.of("write", target, error) from error
        return f"{self.task_dir}/{name}"

    def alias(self, name: str, existing: str) -> str:
        """Give a file that was written a second name, and return its path relative to the run directory.

        Raises:
            RecordError: the name cannot be created.
        """
        try:
            (self.path / name).hardlink_to(self.path / existing)
        except OSError:
            return self.write_exact(name, (self.path / existing).read_bytes())
        return f"{self.task_dir}/{name}"

    def write_manifest(self, manifest: Manifest) -> str:
        """Write `manifest.json` and return its SHA-256."""
        return write_manifest(self.path / MANIFEST, manifest, redact=self.redact)

    def write_originals(self) -> None:
        """Sync the originals that are kept of this attempt, and write the list of them, if there are any."""
        if self.originals is None:
            return
        self.originals.sync()
        kept = self.originals.kept()
        if kept:
            places: dict[str, Json] = {
                place: {"sha256": original.sha256, "bytes": original.bytes} for place, original in kept.items()
            }
            write_atomic(self.path / ORIGINALS, canonical({"originals": places, "schema_version": 1}) + b"\n")

    def evidence_bytes(self) -> int:
        """Return the size of the evidence so far."""
        folder = self.path
        return sum(os.stat(f"{folder}/{name}").st_size for name in (*evidence_files(folder), EVENTS))

    def seal_files(self) -> str:
        """Sync all evidence files, write the list of them, and return the SHA-256 of the list."""
        folder = self.path
        listed: dict[str, Json] = {}
        for name in evidence_files(folder):
            sha256, size = hash_file(f"{folder}/{name}", durable=True)
            listed[valid_utf8(name)] = {"sha256": sha256, "size": size}
        data = canonical({"files": listed, "schema_version": 1}) + b"\n"
        write_atomic(folder / FILES, data)
        return sha256_hex(data)


def evidence_files(folder: Path) -> Iterator[str]:
    """Yield the evidence files of an attempt, without the chain and the list, which are sealed separately.

    Raises:
        RecordError: an entry is neither a file nor a folder; the harness never creates one.
    """
    try:
        for name, entry in entries_below(folder, without=NOT_EVIDENCE):
            if not entry.is_file(follow_symlinks=False):
                raise RecordError(f"{entry.path} is neither a file nor a folder")
            if name not in {EVENTS, FILES}:
                yield name
    except OSError as error:
        _raise(error)


def entries_below(folder: Path, *, without: Container[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below a folder that is not a folder, with its path from there. No link is followed.

    `without`: folders that are left out. Paths are texts, because every attempt lists its files several times.

    Raises:
        OSError: a folder cannot be read.
    """
    pending = [""]
    while pending:
        inside = pending.pop()
        with os.scandir(f"{folder}/{inside}") as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            path = inside + entry.name
            if path in without and entry.is_dir():
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(f"{path}/")
            else:
                yield path, entry


def evidence_folders(folder: Path) -> Iterator[str]:
    """Yield the folders inside an attempt's folder, without a kept workspace."""
    for base, folders, _files in os.walk(folder, onerror=_raise):
        inside = Path(base).relative_to(folder)
        folders[:] = sorted(name for name in folders if (inside / name).as_posix() not in NOT_EVIDENCE)
        yield from ((inside / name).as_posix() for name in folders)


def hash_file(path: Path | str, *, durable: bool = False) -> tuple[str, int]:
    """Return SHA-256 and size of a file.

    Raises:
        RecordError: the file cannot be read.
    """
    state = hashlib.sha256()
    size = 0
    try:
        with open_regular(path) as file:
            while chunk := file.read(_CHUNK):
                state.update(chunk)
                size += len(chunk)
            if durable:
                os.fsync(file.fileno())
    except OSError as error:
        raise RecordError.of("read", Path(path), error) from error
    return state.hexdigest(), size


def content(path: Path) -> bytes | None:
    """Read a regular file; None if it does not exist. Links, pipes and folders are not opened.

    Raises:
        RecordError: the file cannot be read, or is larger than `MAX_CONTENT`.
    """
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        with open_regular(path, MAX_CONTENT) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError.of("read", path, error) from error


def _raise(error: OSError) -> None:
    raise RecordError.of("read", Path(error.filename or ""), error) from error
