"""The key folder: Ed25519 keys in OpenSSH files, `NAME` (private) and `NAME.pub`.

OpenSSH's format keeps a private key encrypted with a slow key derivation (bcrypt), and `ssh-keygen` can read it, change its
passphrase (`-p`) and print the key id (`-l`). A private key that other users can read is refused, as ssh does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import printable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SIGNING_KEY = "AB_SIGNING_KEY"
"""Variable with a private key (its text, a file or a name), for CI."""
PASSPHRASE = "AB_KEY_PASSPHRASE"
KEYS = "AB_KEYS"
KEY_TYPE = "ssh-ed25519"
MAX_KEY_BYTES = 64 * 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BEGIN = "-----BEGIN "

Ask = Callable[[str], str]
"""Asks a person for the passphrase of the key with this name."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key."""

    raw: bytes
    """The 32 bytes of the key."""
    name: str = ""

    @property
    def key_id(self) -> str:
        """Return the digest of the key in the form that `ssh-keygen -l` prints."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self._blob()).digest()).decode().rstrip("=")

    @property
    def text(self) -> str:
        """Return the key as one line of OpenSSH."""
        return f"{KEY_TYPE} {base64.b64encode(self._blob()).decode()}"

    def verifies(self, signature: bytes, data: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only where a signature is checked
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def _blob(self) -> bytes:
        kind = KEY_TYPE.encode()
        return len(kind).to_bytes(4, "big") + kind + len(self.raw).to_bytes(4, "big") + self.raw


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that can sign."""

    public: PublicKey
    _private: Ed25519PrivateKey

    def sign(self, data: bytes) -> bytes:
        return self._private.sign(data)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key of the folder."""

    path: Path
    public: PublicKey
    encrypted: bool | None
    """None if only the public key is here."""


def keys_folder(env: Mapping[str, str] | None = None) -> Path:
    """Return $AB_KEYS, $XDG_CONFIG_HOME/agentbench/keys or ~/.config/agentbench/keys."""
    env = os.environ if env is None else env
    if env.get(KEYS):
        return Path(env[KEYS])
    config = Path(env["XDG_CONFIG_HOME"]) if env.get("XDG_CONFIG_HOME") else Path.home() / ".config"
    return config / "agentbench" / "keys"


def create_key(name: str, passphrase: str | None, folder: Path) -> StoredKey:
    """Create a key pair in the folder. Without a passphrase the private key is protected only by its file mode.

    Raises:
        InputError: the name is invalid or taken, or the folder cannot be written.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only where a key is made
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    path = _path(name, folder)
    private = Ed25519PrivateKey.generate()
    encryption: serialization.KeySerializationEncryption = (
        serialization.BestAvailableEncryption(passphrase.encode()) if passphrase else serialization.NoEncryption()
    )
    data = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, encryption)
    public = PublicKey(private.public_key().public_bytes_raw(), name)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_new(_public_path(path), f"{public.text} {name}\n".encode(), 0o644)
        try:
            _write_new(path, data, 0o600)
        except OSError:
            _public_path(path).unlink()
            raise
    except FileExistsError as error:
        msg = f"{error.filename} already exists"
        raise InputError(msg, remedy="choose another name; keys are never replaced") from None
    except OSError as error:
        raise InputError(f"cannot write {error.filename or folder}: {error.strerror}") from None
    return StoredKey(path, public, bool(passphrase))


def stored_keys(folder: Path) -> list[StoredKey]:
    """Return the signing keys of a folder, sorted by name. Other files are left out."""
    try:
        files = sorted(folder.glob("*.pub"))
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}") from None
    keys = []
    for file in files:
        try:
            public = parse_public(_read(file), file.stem)
        except InputError:
            continue
        private = file.with_suffix("")
        keys.append(StoredKey(private, public, _is_encrypted(private) if private.is_file() else None))
    return keys


def find_key(name: str, folder: Path) -> StoredKey:
    """Return a key of the folder by its name.

    Raises:
        InputError: there is none.
    """
    keys = stored_keys(folder)
    for key in keys:
        if name in {key.public.name, key.public.key_id}:
            return key
    known = ", ".join(key.public.name for key in keys) or "none"
    msg = f"no key '{printable(name)}' in {folder}"
    raise InputError(msg, remedy=f"available: {known}; create one with `ab keys new NAME`")


def load_signing_key(text: str, folder: Path, ask: Ask | None = None) -> SigningKey:
    """Load a private key, given as its text, a file, or a name in the folder. An empty text means $AB_SIGNING_KEY.

    The passphrase of an encrypted key is $AB_KEY_PASSPHRASE, or is asked for.

    Raises:
        InputError: no such key, a wrong passphrase, a file that others can read, or a public part of another key.
    """
    text = text or os.environ.get(SIGNING_KEY, "")
    if not text.strip():
        raise InputError(f"no signing key: {SIGNING_KEY} is not set", remedy="give the name of a key (`ab keys list`)")
    if text.lstrip().startswith(_BEGIN):
        return _private_key(text.strip().encode() + b"\n", SIGNING_KEY, ask)
    path = _named_private(text, folder)
    data = _read(path)
    if data.startswith(KEY_TYPE.encode()):
        raise InputError(f"{path} is a public key", remedy="give the file or the name of the private key")
    _require_private_mode(path)
    key = _private_key(data, path.name, ask)
    if path.parent == folder:
        _require_matching_public(path, key)
    return key


def parse_public(data: bytes, name: str = "") -> PublicKey:
    """Read a public key: a line of OpenSSH, or PEM.

    Raises:
        InputError: it is not an Ed25519 public key.
    """
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a key is read
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    text = data.strip()
    try:
        if text.startswith(_BEGIN.encode()):
            key: object = serialization.load_pem_public_key(text + b"\n")
        else:
            key = serialization.load_ssh_public_key(text)
    except (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error):
        raise InputError("not a public key", remedy=f"expected a line `{KEY_TYPE} AAAA…` or PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("not an Ed25519 key", remedy="runs are signed with Ed25519; `ab keys new NAME` creates a key")
    return PublicKey(key.public_bytes_raw(), name)


def _private_key(data: bytes, name: str, ask: Ask | None) -> SigningKey:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - only where a key is read
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

    try:
        private = _deserialize(data, None)
    except TypeError:  # it is encrypted
        passphrase = os.environ.get(PASSPHRASE) or (ask(name) if ask else "")
        if not passphrase:
            raise InputError(f"the key {name} is encrypted", remedy=f"set {PASSPHRASE}") from None
        try:
            private = _deserialize(data, passphrase.encode())
        except (ValueError, TypeError):
            raise InputError(f"wrong passphrase for the key {name}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(f"{name} is not a private key", remedy="`ab keys new NAME` creates one") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise InputError(f"{name} is not an Ed25519 key", remedy="runs are signed with Ed25519")
    return SigningKey(PublicKey(private.public_key().public_bytes_raw(), name), private)


def _deserialize(data: bytes, passphrase: bytes | None) -> object:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    if b"OPENSSH PRIVATE KEY" in data[:64]:
        return serialization.load_ssh_private_key(data, passphrase)
    return serialization.load_pem_private_key(data, passphrase)


def _is_encrypted(path: Path) -> bool:
    try:
        _deserialize(_read(path), None)
    except TypeError:
        return True
    except ValueError:
        pass
    return False


def _named_private(text: str, folder: Path) -> Path:
    if "/" not in text and (folder / text).is_file():
        return folder / text
    path = Path(text)
    if path.is_file():
        return path
    if "/" in text or not _NAME.fullmatch(text):
        raise InputError(f"key file {printable(text[:200])} does not exist")
    key = find_key(text, folder)
    if key.encrypted is None:
        raise InputError(f"{folder} has only the public part of '{text}'", remedy="sign where the private key is")
    return key.path


def _require_private_mode(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        msg = f"{path} can be read by other users (mode {mode:04o})"
        raise InputError(msg, remedy=f"chmod 600 {path}; if others may have read it, create a new key")


def _require_matching_public(path: Path, key: SigningKey) -> None:
    """Require that `NAME.pub` is the public part of `NAME`, because verifiers get `NAME.pub`."""
    public = _public_path(path)
    if not public.exists():
        return
    try:
        matches = parse_public(_read(public)).raw == key.public.raw
    except InputError:
        matches = False
    if not matches:
        msg = f"{public} is not the public part of {path}"
        raise InputError(msg, remedy=f"find out who replaced it; `ssh-keygen -y -f {path}` prints the public part")


def _path(name: str, folder: Path) -> Path:
    if not _NAME.fullmatch(name) or name.endswith(".pub"):
        msg = f"key name '{printable(name[:80])}'"
        raise InputError(f"{msg}: expected up to 64 letters, digits, '.', '_' and '-', not ending in .pub")
    return folder / name


def _public_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def _write_new(path: Path, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
    except OSError:
        path.unlink()
        raise


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_KEY_BYTES:
        raise InputError(f"{path} is not a key: over {MAX_KEY_BYTES} bytes")
    return data
