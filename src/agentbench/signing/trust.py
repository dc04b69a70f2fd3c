"""Trust: which keys may sign runs, under which names, and when.

A trust file (YAML or JSON) lists keys:

    keys:
      - name: Ada Lovelace
        key: ssh-ed25519 AAAA…
        valid_from: 2026-01-01      # optional; whole days, UTC
        valid_until: 2026-12-31     # optional
        revoked: 2026-06-01         # optional: no signature of this key counts any more
        reason: laptop stolen       # optional, of the revocation
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import parse_document
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError
from agentbench.core.text import printable
from agentbench.signing.envelope import Envelope
from agentbench.signing.keys import KEY_TYPE, PublicKey, StoredKey, find_key, keys_folder, parse_public

TRUST = "AB_TRUST"
"""Variable with the trust file that reports use."""
TRUST_FILE = "trust.yaml"
MAX_TRUST_BYTES = 4 * 1024 * 1024
EXAMPLE = 'keys: [{name: Ada, key: "ssh-ed25519 AAAA…", valid_until: 2026-12-31}]'


class TrustedKey(BaseModel):
    """One key of a trust file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(min_length=1, max_length=200)
    key: str = Field(max_length=2000)
    valid_from: date | None = None
    valid_until: date | None = None
    revoked: date | None = None
    reason: str = ""

    def objection(self, signed_at: str) -> str:
        """Return why a signature of this time does not count; empty if it does.

        The time is the signer's claim. The holder of a stolen key can claim an earlier one, so a revoked key never counts.
        """
        if self.revoked is not None:
            return f"the key of {self.name} was revoked on {self.revoked}" + (f" ({self.reason})" * bool(self.reason))
        try:
            day = datetime.fromisoformat(signed_at).astimezone(UTC).date()
        except ValueError:
            return "the time of the signature cannot be read"
        if self.valid_from is not None and day < self.valid_from:
            return f"signed on {day}, but the key of {self.name} is valid from {self.valid_from}"
        if self.valid_until is not None and day > self.valid_until:
            return f"signed on {day}, but the key of {self.name} expired on {self.valid_until}"
        return ""


class TrustFile(BaseModel):
    """`trust.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    keys: tuple[TrustedKey, ...] = Field(min_length=1, max_length=1000)


@dataclass(frozen=True, slots=True)
class Trust:
    """Keys that may sign, and where they come from."""

    source: str
    keys: tuple[tuple[PublicKey, TrustedKey], ...]
    single: bool = False
    """The user gave one key rather than a trust file."""

    @property
    def keys_text(self) -> str:
        """Return a name for the keys: `a key of trust.yaml`, or `the key ada (SHA256:…)`."""
        if not self.single:
            return f"a key of {self.source}"
        ((key, entry),) = self.keys
        return f"the key {key.key_id}" if entry.name == key.key_id else f"the key {entry.name} ({key.key_id})"

    def signer(self, envelope: Envelope, signed_at: str) -> tuple[str, str]:
        """Return the name of a key that signed an envelope and counts, or why there is none."""
        objection = f"it is not signed with {self.keys_text}"
        for key, entry in self.keys:
            if envelope.signed_by(key):
                objection = entry.objection(signed_at)
                if not objection:
                    return entry.name, ""
        return "", objection


def read_trust(text: str, folder: Path) -> Trust:
    """Return the trust that `--signed-by` names: a public key, a file with one, a trust file, or a key of the folder.

    Raises:
        InputError: it is none of these, or invalid.
    """
    if text.startswith((KEY_TYPE, "-----BEGIN ")):
        return _single(parse_public(text.encode()), "the given key")
    # A plain name is always a key of the folder: a file of that name may come from the sender of the run.
    if "/" not in text and not text.endswith((".yaml", ".yml", ".json", ".pub", ".pem")):
        return _single(_named_key(text, folder).public, text)
    path = Path(text)
    if not path.is_file():
        msg = f"trust file {printable(text[:200])} does not exist"
        raise InputError(msg, remedy="give a public key, a file with one, or a trust file")
    return read_trust_file(path)


def read_trust_file(path: Path) -> Trust:
    """Read a trust file, or a file with one public key.

    Raises:
        InputError: it is neither.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TRUST_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read the trust file {path}: {error.strerror}") from None
    if len(data) > MAX_TRUST_BYTES:
        raise InputError(f"{path} is not a trust file: over {MAX_TRUST_BYTES} bytes")
    if data.lstrip().startswith((KEY_TYPE.encode(), b"-----BEGIN ")):
        try:
            return _single(parse_public(data), str(path))
        except InputError as error:
            raise InputError(f"{path}: {error.message}", remedy=error.remedy) from None
    validated = validate_document(parse_document(data, str(path)), TrustFile)
    if validated.problems or validated.model is None:
        problems = tuple(map(str, validated.problems))
        raise ContractError(f"{path} is not a trust file", problems=problems, remedy=f"example: {EXAMPLE}")
    entries = tuple(_entry(path, number, key) for number, key in enumerate(validated.model.keys, 1))
    _require_distinct(path, entries)
    return Trust(str(path), entries)


def default_trust(env: Mapping[str, str] | None = None) -> Trust | None:
    """Return the trust file of reports: $AB_TRUST, or `trust.yaml` in the key folder. None if there is none.

    Raises:
        InputError: the file is invalid.
    """
    env = os.environ if env is None else env
    if env.get(TRUST):
        if not Path(env[TRUST]).exists():
            raise InputError(f"{TRUST} names {env[TRUST]}, which does not exist", remedy=f"correct or unset {TRUST}")
        return read_trust_file(Path(env[TRUST]))
    path = keys_folder(env) / TRUST_FILE
    return read_trust_file(path) if path.is_file() else None


def _named_key(name: str, folder: Path) -> StoredKey:
    try:
        return find_key(name, folder)
    except InputError as error:
        if not Path(name).is_file():
            raise
        # Only a path is read as a file, so that a file of the sender cannot take the place of a key of the folder.
        raise InputError(error.message, remedy=f"for the file of this name give ./{name}") from None


def _entry(path: Path, number: int, entry: TrustedKey) -> tuple[PublicKey, TrustedKey]:
    if entry.valid_from and entry.valid_until and entry.valid_from > entry.valid_until:
        raise InputError(f"{path}: key {number} ({entry.name}): valid_until is before valid_from")
    try:
        return parse_public(entry.key.encode(), entry.name), entry
    except InputError as error:
        raise InputError(f"{path}: key {number} ({entry.name}): {error.message}", remedy=error.remedy) from None


def _require_distinct(path: Path, entries: Sequence[tuple[PublicKey, TrustedKey]]) -> None:
    """
    Raises:
        InputError: a key is listed twice, so that one entry could revoke it and another not.
    """
    names: dict[str, str] = {}
    for key, entry in entries:
        if key.key_id in names:
            msg = f"{path}: {names[key.key_id]} and {entry.name} have the same key {key.key_id}"
            raise InputError(msg, remedy="list each key once")
        names[key.key_id] = entry.name


def _single(key: PublicKey, source: str) -> Trust:
    name = key.name or key.key_id
    return Trust(source, ((key, TrustedKey(name=name, key=key.text)),), single=True)
