"""The restricted store: per run a key pair, whose secret half is stored encrypted, and per attempt a file of encrypted originals.

    <store>/
      access.jsonl              every access, granted or refused
      <run_id>/
        recipient               public key of the run: writing originals needs no secret
        key.age                 secret key of the run, encrypted for the recipients or with the passphrase
        key.json                digest of key.age and its recipients, which age does not show
        <attempt_id>.jsonl      one line per original: place, salted digest, length, and the original, encrypted for the run

Rotating keys therefore rewrites two small files, and deleting `key.age` makes all originals of the run unreadable.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.atomic_file import sync_folder, write_all, write_atomic
from agentbench.core.canonical import CanonicalError, canonical, parse_canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.trace.originals import KeptOriginal
from agentbench.vault.access_log import KEY as _KEY
from agentbench.vault.age import (
    Protection,
    Unlock,
    Unreadable,
    WrongKey,
    encrypt,
    new_identity,
    private_folder,
    recipient_of,
)

FOLDER = ".vault"
"""Name of the store beside run directories, unless $AB_VAULT names another folder."""
SALT = 16
_PROTECTION = "key.json"
_RECIPIENT = "recipient"
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def store_folder(runs: Path) -> Path:
    """Return the store of the runs in a folder: $AB_VAULT, or a folder beside them."""
    named = os.environ.get("AB_VAULT")
    return Path(named) if named else runs / FOLDER


@dataclass(frozen=True, slots=True)
class Entry:
    """One encrypted original."""

    place: str
    kept: KeptOriginal
    data: bytes


@dataclass(frozen=True, slots=True)
class RunStore:
    """The part of a store that belongs to one run."""

    store: Path
    run_id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.run_id):
            raise InputError(f"{self.run_id!r} is not the id of a run")

    @property
    def folder(self) -> Path:
        return self.store / self.run_id

    def exists(self) -> bool:
        return (self.folder / _KEY).is_file()

    def create(self, protection: Protection) -> str:
        """Create the key pair of the run, and return its public key, for which originals are encrypted.

        Raises:
            RecordError: it cannot be written.
        """
        private_folder(self.folder)
        identity, recipient = new_identity()
        self._write(_RECIPIENT, recipient.encode() + b"\n")
        self._protect(identity, protection)
        return recipient

    def identity(self, unlock: Unlock) -> str:
        """Decrypt the secret key of the run.

        Raises:
            WrongKey: the secret does not open it.
            Unreadable: it was changed, or is not the secret half of the public key.
            RecordError: it cannot be read.
        """
        try:
            identity = unlock.open((self.folder / _KEY).read_bytes()).decode("ascii")
        except OSError as error:
            raise RecordError.of("read", self.folder / _KEY, error) from error
        except UnicodeDecodeError:
            raise Unreadable(f"{self.folder / _KEY} does not contain a key") from None
        if recipient_of(identity) != self.recipient():
            raise Unreadable(f"{self.folder / _RECIPIENT} was changed: it is not the public half of the key of the run")
        return identity

    def recipient(self) -> str:
        """Return the public key of the run, as the store has it.

        Raises:
            RecordError: it cannot be read.
        """
        try:
            return (self.folder / _RECIPIENT).read_text(encoding="ascii", errors="replace").strip()
        except OSError as error:
            raise RecordError.of("read", self.folder / _RECIPIENT, error) from error

    def rotate(self, unlock: Unlock, protection: Protection) -> None:
        """Encrypt the key of the run for others instead."""
        self._protect(self.identity(unlock), protection)

    def protected_by(self, protection: Protection) -> bool:
        """Return whether the key is protected by this passphrase, or for exactly these recipients.

        Raises:
            RecordError: the key cannot be read.
        """
        if not protection.recipients:
            try:
                return bool(self.identity(Unlock(passphrase=protection.passphrase)))
            except (WrongKey, Unreadable):
                return False
        try:
            described = (self.folder / _PROTECTION).read_bytes()
            return described == _description((self.folder / _KEY).read_bytes(), protection)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise RecordError.of("read", self.folder, error) from error

    def destroy(self) -> None:
        """Delete the key first, then everything else of the run.

        Raises:
            RecordError: something cannot be deleted.
        """
        try:
            (self.folder / _KEY).unlink(missing_ok=True)
            sync_folder(self.folder)
            shutil.rmtree(self.folder)
        except OSError as error:
            raise RecordError.of("remove", Path(error.filename or self.folder), error) from error

    def attempt(self, attempt_id: str, *, withhold: bool, run_key: str = "") -> StoredOriginals:
        """Return the writer of an attempt's originals. `run_key` is the public key that the run has sealed, if it has.

        Raises:
            RecordError: the store has no key for this run, or another one than the run has sealed.
        """
        recipient = self.recipient()
        if run_key and recipient != run_key:
            message = f"{self.folder / _RECIPIENT} was changed: originals would be encrypted for another key"
            raise RecordError(message, remedy=f"run.json names {run_key}; find out who replaced the file")
        return StoredOriginals(self._file(attempt_id), recipient, withhold)

    def entries(self, attempt_id: str) -> Iterator[Entry]:
        """Yield the originals of an attempt in the order in which they were kept."""
        yield from _entries(self._file(attempt_id))

    def _file(self, attempt_id: str) -> Path:
        if not _ID.fullmatch(attempt_id):
            raise InputError(f"{attempt_id!r} is not the id of an attempt")
        return self.folder / f"{attempt_id}.jsonl"

    def _protect(self, identity: str, protection: Protection) -> None:
        sealed = protection.seal(identity.encode())
        # The description has the digest of its key: one whose key was never written describes nothing.
        self._write(_PROTECTION, _description(sealed, protection))
        self._write(_KEY, sealed)

    def _write(self, name: str, data: bytes) -> None:
        try:
            write_atomic(self.folder / name, data, durable=True)
        except OSError as error:
            raise RecordError.of("write", self.folder / name, error) from error


@dataclass(frozen=True, slots=True)
class StoredOriginals:
    """Encrypts the originals of one attempt for the run's key. Needs no secret, so it can be sent to another process."""

    file: Path
    recipient: str
    withhold: bool = False
    _outputs: set[str] = field(default_factory=set, compare=False)

    def keep(self, place: str, original: bytes) -> None:
        if place in self._outputs:
            # Outputs are named by their digest: equal ones are kept once.
            return
        salted = secrets.token_bytes(SALT) + original
        line = canonical(
            {
                "place": place,
                "sha256": sha256_hex(salted),
                "bytes": len(original),
                "age": base64.b64encode(encrypt(salted, [self.recipient])).decode(),
            }
        )
        try:
            fd = os.open(self.file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                size = os.fstat(fd).st_size
                torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
                write_all(fd, b"\n" * torn + line + b"\n")
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordError.of("write", self.file, error) from error
        if place.startswith("output:"):
            self._outputs.add(place)

    def kept(self) -> Mapping[str, KeptOriginal]:
        return {entry.place: entry.kept for entry in _entries(self.file)}

    def sync(self) -> None:
        try:
            with self.file.open("rb") as file:
                os.fsync(file.fileno())
            sync_folder(self.file.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError.of("sync", self.file, error) from error


def stored_runs(store: Path) -> list[RunStore]:
    """List the runs whose originals are in a store.

    Raises:
        InputError: there is no store.
    """
    if not store.is_dir():
        raise InputError(f"{store} does not exist", remedy="name the store with --vault or $AB_VAULT")
    runs = [RunStore(store, path.name) for path in sorted(store.iterdir()) if _ID.fullmatch(path.name)]
    return [run for run in runs if run.exists()]


def _description(sealed: bytes, protection: Protection) -> bytes:
    return canonical({"recipients": sorted(set(protection.recipients)), "sha256": sha256_hex(sealed)}) + b"\n"


def unsalted(salted: bytes) -> bytes:
    """Return the original without its salt."""
    return salted[SALT:]


def _entries(file: Path) -> Iterator[Entry]:
    """Read a file of originals. An incomplete last line, which a crash can leave, and lines that were changed are left out."""
    try:
        with file.open("rb") as lines:
            for line in lines:
                entry = _entry(line)
                if entry is not None:
                    yield entry
    except FileNotFoundError:
        return
    except OSError as error:
        raise RecordError.of("read", file, error) from error


def _entry(line: bytes) -> Entry | None:
    try:
        value = parse_canonical(line.removesuffix(b"\n"))
        if not isinstance(value, Mapping):
            return None
        kept = KeptOriginal(str(value["sha256"]), int(str(value["bytes"])))
        return Entry(str(value["place"]), kept, base64.b64decode(str(value["age"]), validate=True))
    except (CanonicalError, KeyError, ValueError):
        return None
