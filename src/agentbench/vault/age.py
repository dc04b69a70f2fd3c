"""Encryption with age (X25519 recipients or a passphrase), by the `pyrage` package. The only module that knows about keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError

SECRET_KEY = "AGE-SECRET-KEY-1"
PUBLIC_KEY = "age1"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAX_KEY_FILE = 64 * 1024


class WrongKey(InputError):
    """A key or a passphrase does not open what it was used for."""


class Unreadable(InputError):
    """Encrypted data was changed or truncated."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of a run's key: for some recipients, or by a passphrase."""

    recipients: tuple[str, ...] = ()
    passphrase: str = ""

    def seal(self, data: bytes) -> bytes:
        """Encrypt for the recipients, or with the passphrase."""
        return (
            encrypt(data, self.recipients)
            if self.recipients
            else bytes(_age().passphrase.encrypt(data, self.passphrase))
        )


@dataclass(frozen=True, slots=True)
class Unlock:
    """The secret that opens the key of a run: the identities of a key file, or a passphrase."""

    identities: tuple[str, ...] = ()
    passphrase: str = ""

    def open(self, data: bytes) -> bytes:
        """Decrypt.

        Raises:
            WrongKey: this secret does not open it.
            Unreadable: the data was changed.
        """
        if self.identities:
            return decrypt(data, self.identities)
        try:
            return bytes(_age().passphrase.decrypt(data, self.passphrase))
        except _age().DecryptError:
            raise WrongKey("the passphrase is wrong, or the key of the run was changed") from None


def new_identity() -> tuple[str, str]:
    """Return a new secret identity and its public recipient."""
    identity = _age().x25519.Identity.generate()
    return str(identity), str(identity.to_public())


def recipient_of(identity: str) -> str:
    """Return the public recipient of an identity."""
    return str(_identity(identity).to_public())


def check_recipient(text: str) -> str:
    """
    Raises:
        InputError: the text is not an age recipient.
    """
    try:
        return str(_age().x25519.Recipient.from_str(text))
    except _age().RecipientError:
        secret = " It is a secret key: keep it, and give its recipient." if text.startswith(SECRET_KEY) else ""
        msg = f"not an age recipient: {'the given text' if secret else repr(text)}.{secret}"
        raise InputError(msg, remedy=f"expected {PUBLIC_KEY}…, as `ab vault new-key` prints it") from None


def encrypt(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt for the recipients, each of whom can decrypt alone."""
    return bytes(_age().encrypt(data, [_age().x25519.Recipient.from_str(text) for text in recipients]))


def decrypt(data: bytes, identities: Sequence[str]) -> bytes:
    """Decrypt with any of the identities.

    Raises:
        WrongKey: the data is not encrypted for any of them.
        Unreadable: the data was changed.
    """
    try:
        return bytes(_age().decrypt(data, [_identity(text) for text in identities]))
    except _age().DecryptError as error:
        if "matching" in str(error):
            raise WrongKey("the key does not open the originals of this run") from None
        raise Unreadable("the encrypted data was changed or truncated") from None


def write_identity(path: Path) -> str:
    """Write a new identity to a file that only its owner can read, and return its recipient.

    Raises:
        InputError: the file exists or cannot be created.
    """
    identity, recipient = new_identity()
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise InputError(f"{path} exists", remedy="name a new file: a key that is lost cannot be restored") from None
    except OSError as error:
        raise InputError(f"cannot create {path}: {error.strerror or error}") from error
    with os.fdopen(fd, "w", encoding="ascii") as file:
        file.write(f"# public key: {recipient}\n{identity}\n")
    return recipient


def read_identities(path: Path) -> tuple[str, ...]:
    """Read the identities of a key file, as `ab vault new-key` and `age-keygen` write it.

    Raises:
        InputError: the file cannot be read, others can read it, or it has no identity.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS:
            raise InputError(f"{path} can be read by other users", remedy=f"run `chmod 600 {path}`")
        with path.open("rb") as file:
            lines = file.read(_MAX_KEY_FILE).decode("ascii", "replace").splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    identities = tuple(line.strip() for line in lines if line.strip().startswith(SECRET_KEY))
    if not identities:
        raise InputError(f"{path} has no age identity", remedy=f"expected a line {SECRET_KEY}…")
    for identity in identities:
        _identity(identity, str(path))
    return identities


def _identity(text: str, place: str = "the key") -> Any:  # noqa: ANN401 - pyrage has no types
    try:
        return _age().x25519.Identity.from_str(text)
    except _age().IdentityError:
        raise InputError(f"{place} has an invalid age identity") from None


def _age() -> Any:  # noqa: ANN401 - pyrage has no types
    try:
        import pyrage  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError(
            "the restricted store needs the package pyrage", remedy="pip install 'agentbench-harness[vault]'"
        ) from None
    return pyrage


def private_folder(path: Path) -> None:
    """Create a folder that only its owner can read.

    Raises:
        RecordError: it cannot be created.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError.of("create", path, error) from error
