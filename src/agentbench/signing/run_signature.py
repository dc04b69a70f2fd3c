"""Signs runs, and compares runs with their signatures.

Two checks exist. `check_signature` is for reports: it compares the files of the run itself with the statement, not those of
attempts. `verify_signature` is for `ab verify`: together with `verify_run`, which compares every file of an attempt with the
run's chain, it leaves no file that could be changed, removed or added without the key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from agentbench.core.canonical import Json, sha256_hex
from agentbench.core.errors import InputError
from agentbench.record.attempt_folder import EVENTS, RECORD, WORKSPACE, WORKSPACE_LIST, content
from agentbench.record.audit import RunReport, verify_run
from agentbench.record.durable import write_atomic
from agentbench.record.kept_rules import RULES
from agentbench.record.naming import RETENTION_SIGNATURE, SIGNATURE, SIGNATURES
from agentbench.record.recompute import recompute
from agentbench.signing.envelope import BadEnvelope, Envelope, read_envelope, seal
from agentbench.signing.keys import SigningKey
from agentbench.signing.statement import (
    LATER,
    PAYLOAD_TYPE,
    BadStatement,
    Statement,
    describe_run,
    read_statement,
)
from agentbench.signing.trust import Trust
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.events import RunReduced
from agentbench.trace.verify import Kind, Problem

RUN_FOLDERS = frozenset({"tasks", RULES})


class State(StrEnum):
    """How a run relates to its signature."""

    UNSIGNED = "not signed"
    VALID = "verified"
    STALE = "stale"
    """The run was continued after it was signed."""
    REDUCED = "reduced"
    """Evidence was deleted after the run was signed, and no signature covers the deletion."""
    UNTRUSTED = "not trusted"
    """No key that is trusted made a signature, or its key is expired or revoked."""
    ALTERED = "altered"
    """The run differs from what was signed, or the signature cannot be read."""


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """The result of comparing a run with its signature."""

    state: State
    why: str = ""
    signer: str = ""
    """Name from the trust file, or the key id."""
    problems: tuple[Problem, ...] = ()
    added: tuple[str, ...] = ()
    """Reports and adjudications that were added after the run was signed."""
    statement: Statement | None = None
    reduced_by: str = ""
    """Signer of a later deletion of evidence."""

    @property
    def ok(self) -> bool:
        return self.state is State.VALID

    def as_json(self) -> dict[str, Json]:
        predicate = self.statement.predicate if self.statement else None
        return {
            "state": str(self.state),
            "signer": self.signer or None,
            "signed_at": predicate.signed_at if predicate else None,
            "why": self.why or None,
            "reduced_by": self.reduced_by or None,
            "added": list(self.added),
        }

    def line(self) -> str:
        """Return the line that reports show."""
        match self.state:
            case State.UNSIGNED:
                return "not signed"
            case State.VALID:
                deleted = f", deletion of evidence signed by {self.reduced_by}" if self.reduced_by else ""
                return f"signed by {self.signer}, verified{deleted}"
            case State.UNTRUSTED:
                return f"signed with {self.signer}, {self.why}" if self.signer else f"not trusted: {self.why}"
            case State.STALE | State.REDUCED:
                return f"signature is stale: {self.why}"
            case State.ALTERED:
                return f"SIGNATURE DOES NOT MATCH: {self.why}"


def _audit(run: Path) -> RunReport:
    return verify_run(run, recompute=recompute)


def sign_run(
    run: Path, key: SigningKey, registration: Path | None = None, *, audit: Callable[[Path], RunReport] = _audit
) -> Path:
    """Verify a closed run, sign it, and return the file with the signature.

    Commands pass an `audit` that also checks stopping rules; this package cannot import statistics.

    A valid signature is kept: another key signs the same statement. A run that was reduced after it was signed keeps its
    signature and gets a second one that covers the deletion. A stale signature is replaced.

    Raises:
        InputError: the run does not verify, differs from what was signed before, or was signed with another registration.
        RecordError: a file cannot be read or written.
    """
    report = audit(run)
    if not report.ok:
        msg = f"{run} does not verify and is not signed: {report.problems[0]}"
        raise InputError(msg, remedy="run `ab verify` for details; finish an interrupted run with `ab run --resume`")
    name, signed = SIGNATURE, _existing(run, SIGNATURE)
    if signed and _follow(run, signed).reduced:
        name, signed = RETENTION_SIGNATURE, _existing(run, RETENTION_SIGNATURE)
    payload = describe_run(run, registration)
    if signed and not _follow(run, signed).later:
        _require_same_claims(name, signed.statement, read_statement(payload))
        envelope = signed.envelope.with_signature(key)
    else:
        envelope = seal(PAYLOAD_TYPE, payload, [key])
    write_atomic(run / name, envelope.encoded())
    return run / name


def _existing(run: Path, name: str) -> _Signed | None:
    """Return an earlier signature, or None if there is none.

    Raises:
        InputError: it cannot be read, or the run differs from it in more than later events.
    """
    try:
        signed = _read(run, name)
    except InputError as error:
        raise InputError(f"{run / name} {error.message}", remedy="remove it to sign the run as it is") from None
    followed = _follow(run, signed) if signed else None
    if followed and followed.altered:
        msg = f"{run} differs from what was signed before: {followed.altered[0]}"
        raise InputError(msg, remedy=f"find out who changed it; remove {name} to sign it as it is")
    return signed


def check_signature(run: Path, trust: Trust | None) -> SignatureCheck:
    """Compare the files of the run itself with its signature, without those of attempts.

    Raises:
        RecordError: a file cannot be read.
    """
    return _check(run, trust, attempts=False)


def verify_signature(run: Path, trust: Trust | None) -> SignatureCheck:
    """Compare all files of a run with its signature. Those of attempts are covered only if `verify_run` found no problem.

    Raises:
        RecordError: a file cannot be read.
    """
    check = _check(run, trust, attempts=True)
    added = tuple(_added_files(run, check.statement)) if check.statement else ()
    if not check.ok or not added:
        return check
    return replace(check, state=State.ALTERED, why=str(added[0]), problems=added)


def _require_same_claims(name: str, signed: Statement, fresh: Statement) -> None:
    """Require that the statement of the first signer is true, and has the registration that the second one gives, if any."""
    kept = {"signed_at", "signed_with", "registration"}
    same = signed.files() == fresh.files() and (
        signed.predicate.model_dump(exclude=kept) == fresh.predicate.model_dump(exclude=kept)
    )
    if not same:
        msg = f"{name} claims something else about the run than its records"
        raise InputError(msg, remedy=f"remove {name} to sign the run as it is")
    registration = fresh.predicate.registration
    if registration and registration != signed.predicate.registration:
        earlier = signed.predicate.registration.name if signed.predicate.registration else "no registration"
        msg = f"the run is already signed with {earlier}, not with this {registration.name}"
        raise InputError(msg, remedy=f"sign without --registration, or remove {name} and its signatures first")


# --- comparison -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Signed:
    """A signature of a run, parsed but not trusted yet."""

    envelope: Envelope
    statement: Statement


@dataclass(frozen=True, slots=True)
class _Followed:
    """A run compared with a statement about it."""

    altered: tuple[Problem, ...]
    later: tuple[str, ...]
    """Types of the events after those that were signed."""

    @property
    def reduced(self) -> bool:
        return bool(self.later) and set(self.later) == {RunReduced.type}


def _check(run: Path, trust: Trust | None, *, attempts: bool) -> SignatureCheck:
    try:
        signed = _read(run, SIGNATURE)
    except InputError as error:
        problem = _problem("changed", SIGNATURE, error.message)
        return SignatureCheck(State.ALTERED, str(problem), problems=(problem,))
    if signed is None:
        why = f"{SIGNATURE} is missing"
        return SignatureCheck(State.UNSIGNED, why, problems=(_problem("missing", SIGNATURE, "the run is not signed"),))
    return _check_signed(run, signed, trust, attempts=attempts)


def _check_signed(run: Path, signed: _Signed, trust: Trust | None, *, attempts: bool) -> SignatureCheck:
    signer, objection = _signer(signed, trust)
    followed = _follow(run, signed, attempts=attempts)
    base = SignatureCheck(State.VALID, signer=signer, statement=signed.statement, added=_later_files(run))
    if objection and trust:
        return _untrusted(base, SIGNATURE, objection)
    if followed.altered:
        return replace(base, state=State.ALTERED, why=str(followed.altered[0]), problems=followed.altered)
    if not followed.later:
        return _untrusted(base, SIGNATURE, objection) if objection else base
    if followed.reduced:
        return _check_reduction(run, trust, base)
    why = f"the run was continued after it was signed ({followed.later[0]}); sign it again with `ab sign`"
    return replace(base, state=State.STALE, why=why, problems=(_problem("appended", EVENTS, why),))


def _check_reduction(run: Path, trust: Trust | None, base: SignatureCheck) -> SignatureCheck:
    """Require a second signature for evidence that was deleted after the run was signed."""
    try:
        signed = _read(run, RETENTION_SIGNATURE)
    except InputError as error:
        problem = _problem("changed", RETENTION_SIGNATURE, error.message)
        return replace(base, state=State.ALTERED, why=str(problem), problems=(problem,))
    followed = _follow(run, signed) if signed else None
    if signed is None or followed is None or followed.altered or followed.later:
        why = "evidence was deleted after the run was signed, and no signature covers that; `ab sign` adds one"
        return replace(base, state=State.REDUCED, why=why, problems=(_problem("removed", "tasks", why),))
    signer, objection = _signer(signed, trust)
    if objection:
        return _untrusted(base, RETENTION_SIGNATURE, objection)
    return replace(base, reduced_by=signer)


def _untrusted(base: SignatureCheck, name: str, objection: str) -> SignatureCheck:
    message = f"signed with {base.signer}, {objection}" if base.signer else objection
    return replace(base, state=State.UNTRUSTED, why=objection, problems=(_problem("inconsistent", name, message),))


def _signer(signed: _Signed, trust: Trust | None) -> tuple[str, str]:
    """Return who signed, and why that does not count; the second is empty if it does."""
    key_ids = ", ".join(signature.key_id for signature in signed.envelope.signatures)
    if trust is None:
        return key_ids, "not in a trust file"
    objection, claimed = "", {signature.key_id for signature in signed.envelope.signatures}
    for key, entry in trust.keys:
        if not signed.envelope.signed_by(key):
            if key.key_id in claimed:
                objection = f"the signature of {entry.name} is wrong: it was made over something else"
            continue
        objection = entry.objection(signed.statement.predicate.signed_at)
        if not objection:
            return entry.name, ""
    return ("", objection) if objection else (key_ids, f"which is not in {trust.source}")


def _read(run: Path, name: str) -> _Signed | None:
    data = content(run / name)
    if data is None:
        return None
    try:
        envelope = read_envelope(data, PAYLOAD_TYPE)
        return _Signed(envelope, read_statement(envelope.payload))
    except (BadEnvelope, BadStatement) as error:
        raise InputError(str(error)) from None


def _follow(run: Path, signed: _Signed, *, attempts: bool = True) -> _Followed:
    """Compare the run with the statement. Events after the signed ones are returned, not judged."""
    chain = signed.statement.predicate.chain
    files = signed.statement.files()
    data = content(run / EVENTS) or b""
    prefix, rest = data[: chain.bytes], data[chain.bytes :]
    later = tuple(_event_types(rest))
    if sha256_hex(prefix) == files.get(EVENTS) and later and set(later) != {RunReduced.type}:
        return _Followed((), later)  # other files changed too, as they must
    altered = list(_differences(run, {name: sha256 for name, sha256 in files.items() if name != EVENTS}, attempts))
    if sha256_hex(prefix) != files.get(EVENTS) or _last_hash(prefix) != chain.head:
        altered.append(_problem("changed", EVENTS, f"is not the chain with head {chain.head} that was signed"))
    return _Followed(tuple(altered), later)


def _differences(run: Path, files: dict[str, str], attempts: bool) -> Iterator[Problem]:  # noqa: FBT001 - internal
    # Records first: a changed verdict is what a reader must see.
    for name, sha256 in sorted(files.items(), key=lambda item: (not item[0].endswith(RECORD), item[0])):
        if not attempts and name.startswith("tasks/"):
            continue
        path = run / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            yield _problem("inconsistent", name, "the signature names a file outside the run")
        elif (data := content(path)) is None:
            yield _problem("removed", name, "was signed and is missing")
        elif hashlib.sha256(data).hexdigest() != sha256:
            yield _problem("changed", name, "differs from what was signed")


def _added_files(run: Path, statement: Statement) -> Iterator[Problem]:
    """Yield files that neither the signature nor a hash chain covers."""
    covered = set(statement.files()) | SIGNATURES | LATER | RUN_FOLDERS
    for entry in sorted(run.iterdir()):
        if entry.name not in covered:
            yield _problem("appended", entry.name, "was added after the run was signed")
    for entry in sorted((run / RULES).iterdir()) if (run / RULES).is_dir() else ():
        if f"{RULES}/{entry.name}" not in covered:
            yield _problem("appended", f"{RULES}/{entry.name}", "was added after the run was signed")
    for folder in sorted((run / "tasks").iterdir()) if (run / "tasks").is_dir() else ():
        if (folder / WORKSPACE).exists() and not (folder / WORKSPACE_LIST).exists():
            yield _problem("appended", f"tasks/{folder.name}/{WORKSPACE}", "was added after the run was signed")


def _later_files(run: Path) -> tuple[str, ...]:
    return tuple(sorted(name for name in LATER if (run / name).exists()))


def _event_types(data: bytes) -> Iterator[str]:
    for raw in data.splitlines():
        try:
            yield read_line(raw).type
        except BadLine:
            yield "unknown"


def _last_hash(data: bytes) -> str:
    try:
        return read_line(data.splitlines()[-1]).hash
    except (BadLine, IndexError):
        return ""


def _problem(kind: Kind, place: str, message: str) -> Problem:
    return Problem(kind, place, message)
