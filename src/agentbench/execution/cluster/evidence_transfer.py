"""Moves the evidence of an attempt from a node to the driver, while it is made and when it ends.

A transfer is a sequence of parts: a header line (JSON) and the bytes of a file or of the end of the log. While the attempt runs,
a node sends what is new, so that the driver has it even if the node dies; the last transfer lists every file and says how the
attempt ended on the node. What arrives is untrusted: names are checked, no link is followed, and the total is limited. A large file that grows is sent again only once it has
doubled, so that all transfers together are at most a few times as large as the evidence.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import ssl
import stat
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import RecordError
from agentbench.execution.cluster.channel_server import BadMessage, Exchange
from agentbench.execution.cluster.wire import JsonDict, decode, encode
from agentbench.record.attempt_folder import EVENTS, WORKSPACE, entries_below

MAX_EVIDENCE = 2 << 30
"""Most bytes of evidence of one attempt."""
MAX_FILES = 100_000
MAX_NAMES = 32 << 20
_MAX_SENT = 4 * MAX_EVIDENCE
"""Most bytes that a node may send for one attempt: files that grow are sent again, and all files after a broken connection."""
_DRIVER_AT_FAULT = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
    }
)
"""Errors of the driver's file system. All others come from what the node sent: a file where a folder is, a name that is too long."""
_MAX_NAME = 4000
_CHUNK = 256 << 10
_LARGE = 1 << 20
_TOP = frozenset({"logs", "agent", "diffs", "meta", "blobs", WORKSPACE})


# --- on a node ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    header: bytes
    path: Path | None = None
    offset: int = 0
    size: int = 0


@dataclass(slots=True)
class EvidenceSender:
    """Remembers what the driver has of one attempt."""

    folder: Path
    _sent: dict[str, tuple[int, int]] = field(default_factory=dict)
    _events: int = 0

    def transfer(self, failure: str | None = None) -> tuple[Iterator[bytes], int]:
        """Return the bytes of everything new, and their number. Call `forget` if the driver does not get them.

        `failure`: how the attempt ended, empty without a failure of the node; None while it runs.
        """
        parts = self._parts(last=failure is not None)
        if failure is not None:
            parts.append(_Part(_line({"failure": failure})))
        return self._chunks(parts), sum(len(part.header) + part.size for part in parts)

    def _parts(self, *, last: bool) -> list[_Part]:
        parts, names = [], []
        # The log comes last: it refers to blobs, and an event must never arrive before what it refers to.
        events = self._new_events(last=last)
        for name, status in _files(self.folder, workspace=last):
            names.append(name)
            version = (status.st_size, status.st_mtime_ns)
            sent = self._sent.get(name)
            growing = not last and sent is not None and _LARGE < version[0] < 2 * sent[0]
            if name == EVENTS or sent == version or growing:
                continue
            if stat.S_ISLNK(status.st_mode):
                parts.append(_Part(_line({"name": name, "link": str((self.folder / name).readlink())})))
            else:
                mode = stat.S_IMODE(status.st_mode)
                header = _line({"name": name, "offset": 0, "size": status.st_size, "mode": mode})
                parts.append(_Part(header, self.folder / name, 0, status.st_size))
            self._sent[name] = version
        if events:
            header = _line({"name": EVENTS, "offset": self._events, "size": events, "mode": 0o644})
            parts.append(_Part(header, self.folder / EVENTS, self._events, events))
            self._events += events
        if last:
            if (self.folder / WORKSPACE).is_dir():
                names.append(WORKSPACE)
                parts.append(_Part(_line({"folder": WORKSPACE})))
            listed = json.dumps(names).encode()
            parts.append(_Part(_line({"names": len(listed)}) + listed))
        return parts

    def forget(self) -> None:
        """Send everything again: a transfer failed, and the driver may have any part of it."""
        self._sent.clear()
        self._events = 0

    def _new_events(self, *, last: bool) -> int:
        path = self.folder / EVENTS
        if not path.exists():
            return 0
        with path.open("rb") as file:
            file.seek(self._events)
            data = file.read()
        return len(data) if last else data.rfind(b"\n") + 1

    def _chunks(self, parts: list[_Part]) -> Iterator[bytes]:
        for part in parts:
            yield part.header
            if part.path is None:
                continue
            with part.path.open("rb") as file:
                file.seek(part.offset)
                left = part.size
                while left:
                    chunk = file.read(min(_CHUNK, left))
                    if not chunk:
                        raise RecordError(f"{part.path} became shorter while it was sent")
                    left -= len(chunk)
                    yield chunk


def _files(folder: Path, *, workspace: bool) -> Iterator[tuple[str, os.stat_result]]:
    for name, entry in entries_below(folder, without=() if workspace else (WORKSPACE,)):
        if not entry.name.startswith(".") or name.startswith(f"{WORKSPACE}/"):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # a temporary file that was renamed
            if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                yield name, status


def _line(value: JsonDict) -> bytes:
    return encode(value) + b"\n"


# --- on the driver --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class EvidenceReceiver:
    """Writes the evidence of one attempt into its folder."""

    folder: Path
    _bytes: int = 0
    _names: set[str] = field(default_factory=set)
    _folders: set[str] = field(default_factory=set)
    """Folders that exist and are no links."""

    def receive(self, exchange: Exchange) -> str | None:
        """Write all parts of a transfer. Return how the attempt ended on its node if it was the last: see `transfer`.

        Raises:
            BadMessage: a part is not evidence.
            RecordError: it cannot be written.
        """
        failure: str | None = None
        try:
            while exchange.left:
                try:
                    header = decode(exchange.read_line())
                except (ValueError, TypeError):
                    raise BadMessage("not the header of a part") from None
                if "names" in header:
                    self._keep_only(_names(exchange, int(header["names"])))
                elif "failure" in header:
                    failure = str(header["failure"])
                elif header == {"folder": WORKSPACE}:
                    (self.folder / WORKSPACE).mkdir(exist_ok=True)
                else:
                    self._write(header, exchange)
        except OSError as error:
            if isinstance(error, ConnectionError | ssl.SSLError):
                raise
            if error.errno in _DRIVER_AT_FAULT:
                raise RecordError.of("write", self.folder, error) from error
            raise BadMessage(f"evidence that cannot be written: {error.strerror or error}") from error
        return failure

    def close(self) -> None:
        """Make what was received survive a loss of power; other files are synced when they are sealed."""
        path = self.folder / EVENTS
        if path.exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())

    def _write(self, header: JsonDict, exchange: Exchange) -> None:
        name = header.get("name")
        target = self._target(name)
        self._names.add(str(name))
        if len(self._names) > MAX_FILES:
            raise BadMessage(f"the evidence has more than {MAX_FILES} files")
        if "link" in header:
            if not str(name).startswith(f"{WORKSPACE}/"):
                raise BadMessage(f"{name} must not be a link")
            if not os.path.lexists(target):
                Path(target).symlink_to(str(header["link"]))
            return
        offset, size = int(header["offset"]), int(header["size"])
        self._bytes += size
        if size < 0 or offset < 0 or size > MAX_EVIDENCE or self._bytes > _MAX_SENT:
            raise BadMessage(f"the evidence is larger than {MAX_EVIDENCE} bytes")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(target, flags, 0o600 if not int(header["mode"]) & stat.S_IROTH else 0o644)
        with os.fdopen(fd, "wb") as file:
            if os.fstat(file.fileno()).st_size < offset:
                raise BadMessage(f"a part of {name} is missing")
            os.ftruncate(file.fileno(), offset)
            file.seek(offset)
            while size:
                chunk = exchange.read(min(_CHUNK, size))
                file.write(chunk)
                size -= len(chunk)
        if int(header["mode"]) & stat.S_IXUSR:
            Path(target).chmod(0o755)

    def _target(self, name: object) -> str:
        parts = name.split("/") if isinstance(name, str) and len(name) <= _MAX_NAME and "\0" not in name else [""]
        if not {"", ".", ".."}.isdisjoint(parts):
            raise BadMessage(f"{name!r} is not a file of an attempt")
        hidden = parts[0] != WORKSPACE and any(part.startswith(".") for part in parts)
        if hidden or (len(parts) > 1 and parts[0] not in _TOP):
            raise BadMessage(f"{name!r} is not a file of an attempt")
        self._make_folders("/".join(parts[:-1]))
        return f"{self.folder}/{name}"

    def _make_folders(self, inside: str) -> None:
        if not inside or inside in self._folders:
            return
        self._make_folders(inside.rpartition("/")[0])
        folder = self.folder / inside
        if folder.is_symlink():
            raise BadMessage(f"{inside!r} is a link")
        folder.mkdir(exist_ok=True)
        self._folders.add(inside)

    def _keep_only(self, listed: set[str]) -> None:
        """Remove files that were sent while they were temporary."""
        self._folders.clear()
        for name, _status in list(_files(self.folder, workspace=True)):
            if name not in listed:
                (self.folder / name).unlink()
        if WORKSPACE not in {name.partition("/")[0] for name in listed}:
            shutil.rmtree(self.folder / WORKSPACE, ignore_errors=True)


def _names(exchange: Exchange, size: int) -> set[str]:
    if not 0 <= size <= MAX_NAMES:
        raise BadMessage("the list of files is too long")
    try:
        names = json.loads(exchange.read(size))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or len(names) > MAX_FILES:
        raise BadMessage("not a list of files")
    return set(map(str, names))
