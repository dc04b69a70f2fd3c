"""The signature of a pilot's logs: decisions and removals as they were when they were signed.

The signature of a run covers its attempts, and that of the registration covers the plan. Neither covers the logs: without a
signature of their own, an attacker who recomputes the digests of all lines could add a removal or reword a reason. A log that only
grew since is not altered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.ids import now_iso
from agentbench.pilot.folder import DECISIONS, REMOVALS
from agentbench.record.durable import write_atomic
from agentbench.signing.envelope import BadEnvelope, Envelope, read_envelope, seal
from agentbench.signing.keys import SigningKey
from agentbench.signing.trust import Trust
from agentbench.trace.verify import Problem

SIGNATURE = "logs.dsse.json"
PAYLOAD_TYPE = "application/vnd.agentbench.pilot-logs+json"
LOGS = (DECISIONS, REMOVALS)


class SignedLog(BaseModel):
    """A log as far as it was signed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    size: int
    """Bytes."""
    sha256: str


class LogStatement(BaseModel):
    """The payload of the signature."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    registration_id: str
    signed_at: str
    logs: dict[str, SignedLog]


def sign_logs(folder: Path, registration_id: str, key: SigningKey) -> None:
    """Sign the logs of a pilot. Another key signs the same statement if nothing was added since.

    Raises:
        InputError: the logs differ from what was signed before.
        RecordError: a file cannot be read or written.
    """
    logs = {name: _describe(_read(folder / name)) for name in LOGS}
    earlier = _read_signature(folder)
    if earlier is not None and (problem := _difference(folder, earlier[1])):
        raise InputError(problem, remedy=f"restore the logs, or remove {folder / SIGNATURE}")
    if earlier is not None and (earlier[1].logs, earlier[1].registration_id) == (logs, registration_id):
        envelope = earlier[0].with_signature(key)
    else:
        statement = LogStatement(registration_id=registration_id, signed_at=now_iso(), logs=logs)
        envelope = seal(PAYLOAD_TYPE, canonical(statement.model_dump(mode="json")), [key])
    write_atomic(folder / SIGNATURE, envelope.encoded())


@dataclass(frozen=True, slots=True)
class LogSignatureCheck:
    """The logs of a pilot compared with their signature."""

    signer: str = ""
    problem: Problem | None = None
    not_checked: bool = False
    """They are signed, but no trusted key is known."""


def check_log_signature(
    folder: Path, registration_ids: Collection[str], trust: Trust | None, *, required: bool
) -> LogSignatureCheck:
    """Compare the logs with their signature. If none is required, only one that does not match is a problem."""
    try:
        signed = _read_signature(folder)
        difference = _difference(folder, signed[1]) if signed else ""
    except InputError as error:
        return _problem(error.message)
    if signed is None:
        missing = required and any(_read(folder / name) for name in LOGS)
        return _problem("decisions and removals are not signed") if missing else LogSignatureCheck()
    envelope, statement = signed
    if statement.registration_id not in registration_ids:
        difference = f"names the registration {statement.registration_id}, which is not one of this pilot"
    return _problem(difference) if difference else _check_signer(folder, envelope, statement, trust, required=required)


def _check_signer(
    folder: Path, envelope: Envelope, statement: LogStatement, trust: Trust | None, *, required: bool
) -> LogSignatureCheck:
    if trust is None:
        return LogSignatureCheck(not_checked=True)
    signer, objection = trust.signer(envelope, statement.signed_at)
    objection = objection or _added(folder, statement.logs)
    if not objection:
        return LogSignatureCheck(signer=signer)
    return _problem(objection) if required else LogSignatureCheck(not_checked=True)


def _problem(message: str) -> LogSignatureCheck:
    return LogSignatureCheck(problem=Problem("inconsistent", SIGNATURE, message))


def _read_signature(folder: Path) -> tuple[Envelope, LogStatement] | None:
    data = _read(folder / SIGNATURE)
    if not data:
        return None
    try:
        envelope = read_envelope(data, PAYLOAD_TYPE)
        return envelope, LogStatement.model_validate_json(envelope.payload)
    except (BadEnvelope, ValidationError) as error:
        raise InputError(f"{folder / SIGNATURE} is not a signature of logs: {str(error).splitlines()[0]}") from None


def _difference(folder: Path, statement: LogStatement) -> str:
    """Say which log does not begin with what was signed."""
    for name, signed in statement.logs.items():
        if name not in LOGS:
            return f"the signature covers {name}, which is not a log of a pilot"
        if _describe(_read(folder / name)[: signed.size]) != signed:
            return f"{name} differs from what was signed"
    return ""


def _added(folder: Path, logs: Mapping[str, SignedLog]) -> str:
    grown = [name for name in LOGS if name not in logs or len(_read(folder / name)) > logs[name].size]
    return f"lines were added to {' and '.join(grown)} after they were signed; sign the pilot again" if grown else ""


def _describe(data: bytes) -> SignedLog:
    return SignedLog(size=len(data), sha256=sha256_hex(data))


def _read(path: Path) -> bytes:
    """Return the content of a file; empty if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RecordError.of("read", path, error) from error
