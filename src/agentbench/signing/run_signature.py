"""Signs runs, and compares runs with their signatures.

Two checks exist. `check_signature` is for reports: it compares every file that the statement names, which includes the record of
every attempt, but not evidence files. `verify_signature` is for `ab verify`: together with `verify_run`, which compares every
file of an attempt with the run's chain, it leaves no file that could be changed, removed or added without the key.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from agentbench.core.canonical import Json, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.core.text import printable
from agentbench.record.attempt_folder import EVENTS, RECORD, WORKSPACE, WORKSPACE_LIST, content
from agentbench.record.audit import RunReport, verify_run
from agentbench.record.durable import write_atomic
from agentbench.record.kept_rules import RULES
from agentbench.record.naming import RETENTION_SIGNATURE, SIGNATURE, SIGNATURES
from agentbench.record.recompute import recompute
from agentbench.record.retention import closing_time
from agentbench.signing.envelope import BadEnvelope, Envelope, read_envelope, seal
from agentbench.signing.keys import SigningKey
from agentbench.signing.statement import (
    HEAD,
    LATER,
    PAYLOAD_TYPE,
    BadStatement,
    Statement,
    describe_run,
    read_statement,
    registration_subject,
    summarise,
)
from agentbench.signing.trust import Trust
from agentbench.trace.chain import BadLine, read_line
from agentbench.trace.events import RunReduced
from agentbench.trace.verify import Kind, Problem

RUN_FOLDERS = frozenset({"tasks", RULES})
NOT_CHECKED = "not checked: no trusted key is known"
CLOCK_DIFFERENCE = timedelta(minutes=5)
"""Clocks of the machines that make and sign a run may differ by this."""


_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}")


class State(StrEnum):
    """Results of comparing a run with its signature."""

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
            case State.UNTRUSTED if self.why == NOT_CHECKED:
                return f"signature not checked, because no trust file is set; it claims the key {self.signer}"
            case State.UNTRUSTED:
                signer = f"signed with {self.signer}, " * bool(self.signer)
                return f"signature not trusted: {signer}{self.why}"
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
        InputError: see `prepare_signature`.
        RecordError: a file cannot be read or written.
    """
    return prepare_signature(run, registration, audit=audit).sign(key)


@dataclass(frozen=True, slots=True)
class PreparedSignature:
    """The statement about a run that was verified, ready to be signed."""

    run: Path
    name: str
    payload: bytes
    """Made from the run alone. An earlier envelope has exactly these bytes, or its signatures are not kept."""
    earlier: Envelope | None
    head: str

    def other_signers(self, key: SigningKey) -> str:
        """Return the ids of the keys whose signatures of the same statement are kept. They are not checked."""
        signatures = self.earlier.signatures if self.earlier else ()
        return ", ".join(signature.key_id for signature in signatures if signature.key_id != key.public.key_id)

    def sign(self, key: SigningKey) -> Path:
        """Write the signature beside the run, and return its file.

        Raises:
            RecordError: it cannot be written.
        """
        envelope = self.earlier.with_signature(key) if self.earlier else seal(PAYLOAD_TYPE, self.payload, [key])
        if self.name == SIGNATURE:
            # A new signature covers the run as it is now, so that an earlier one of a deletion has nothing to say.
            _remove(self.run / RETENTION_SIGNATURE)
        write_atomic(self.run / self.name, envelope.encoded())
        return self.run / self.name


def prepare_signature(
    run: Path, registration: Path | None = None, *, audit: Callable[[Path], RunReport] = _audit
) -> PreparedSignature:
    """Verify a closed run and describe it. Nothing is written.

    Raises:
        InputError: the run does not verify, differs from what was signed before, or was signed with another registration.
        RecordError: a file cannot be read.
    """
    report = audit(run)
    if not report.ok:
        msg = f"{run} does not verify and is not signed: {report.problems[0]}"
        raise InputError(msg, remedy="run `ab verify` for details; finish an interrupted run with `ab run --resume`")
    name, signed = SIGNATURE, _existing(run, SIGNATURE)
    if signed and _follow(run, signed).reduced:
        name, signed = RETENTION_SIGNATURE, _existing(run, RETENTION_SIGNATURE)
    if signed and not _follow(run, signed).later:
        payload = _same_statement(run, name, signed, registration)
    else:
        payload, signed = describe_run(run, registration), None
    if read_statement(payload).predicate.chain.head != report.head:
        raise InputError(f"{run} was changed while it was verified, and is not signed", remedy="sign it again")
    return PreparedSignature(run, name, payload, signed.envelope if signed else None, report.head)


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
    """Compare the files that the statement names, such as all records, with the run. Evidence files are not compared.

    Raises:
        RecordError: a file cannot be read.
    """
    return _check(run, trust)


def verify_signature(run: Path, trust: Trust | None) -> SignatureCheck:
    """Compare all files of a run with its signature. Those of attempts are covered only if `verify_run` found no problem."""
    try:
        check = _check(run, trust)
    except RecordError as error:
        return _altered(_problem("changed", run.name, error.message))
    if not check.ok or check.statement is None:
        return check
    problems = (*_added_files(run, check.statement), *_false_claims(run, check.statement))
    return replace(check, state=State.ALTERED, why=str(problems[0]), problems=problems) if problems else check


def _same_statement(run: Path, name: str, signed: _Signed, registration: Path | None) -> bytes:
    """Describe a run for a further key, at the time that the first signer claims. The result equals the signed payload.

    Raises:
        InputError: the earlier statement says anything that does not follow from the run and the given registration.
    """
    earlier = signed.statement.predicate
    given = registration_subject(registration) if registration else None
    if given != earlier.registration:
        names = [subject.name if subject else "no registration" for subject in (earlier.registration, given)]
        msg = f"{run} is already signed with {names[0]}, not with {names[1]}"
        if names[0] == names[1]:
            msg = f"{run} is already signed with another content of {names[0]}"
        raise InputError(msg, remedy=f"give the same --registration, or remove {name} and its signatures first")
    _require_plausible_time(run, name, earlier.signed_at)
    if not _VERSION.fullmatch(earlier.signed_with):
        raise InputError(
            f"{run / name} has no version in signed_with", remedy=f"remove {name} to sign the run as it is"
        )
    payload = describe_run(run, registration, signed_at=earlier.signed_at, signed_with=earlier.signed_with)
    if payload != signed.envelope.payload:
        msg = f"{run / name} claims something else about the run than its files"
        raise InputError(msg, remedy=f"remove {name} to sign the run as it is")
    return payload


def _require_plausible_time(run: Path, name: str, signed_at: str) -> None:
    """
    Raises:
        InputError: the earlier signature claims a time before the run was closed, or in the future.
    """
    closed = closing_time(run)
    try:
        signed = datetime.fromisoformat(signed_at)
        plausible = closed is not None and closed - CLOCK_DIFFERENCE <= signed <= datetime.now(UTC) + CLOCK_DIFFERENCE
    except (ValueError, TypeError):
        plausible = False
    if not plausible:
        msg = f"{run / name} claims to be signed at {printable(signed_at[:40])}, but the run was closed at {closed}"
        raise InputError(msg, remedy=f"remove {name} to sign the run as it is")


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise RecordError.of("remove", path, error) from error


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


def _check(run: Path, trust: Trust | None) -> SignatureCheck:
    try:
        signed = _read(run, SIGNATURE)
    except InputError as error:
        return _altered(_problem("changed", SIGNATURE, error.message))
    if signed is None:
        why = f"{SIGNATURE} is missing"
        return SignatureCheck(State.UNSIGNED, why, problems=(_problem("missing", SIGNATURE, "the run is not signed"),))
    return _check_signed(run, signed, trust)


def _check_signed(run: Path, signed: _Signed, trust: Trust | None) -> SignatureCheck:
    signer, objection = _signer(signed, trust)
    followed = _follow(run, signed)
    base = SignatureCheck(State.VALID, signer=signer, statement=signed.statement, added=_later_files(run))
    if objection and trust:
        return _untrusted(base, SIGNATURE, objection)
    if followed.altered:
        return replace(base, state=State.ALTERED, why=str(followed.altered[0]), problems=followed.altered)
    if not followed.later:
        return _check_no_reduction(run, _untrusted(base, SIGNATURE, objection) if objection else base)
    if followed.reduced:
        return _check_reduction(run, trust, base)
    why = f"the run was continued after it was signed ({followed.later[0]}); sign it again with `ab sign`"
    return replace(base, state=State.STALE, why=why, problems=(_problem("appended", EVENTS, why),))


def _check_no_reduction(run: Path, base: SignatureCheck) -> SignatureCheck:
    """Refuse the signature of a deletion if no evidence was deleted after the run was signed."""
    if not os.path.lexists(run / RETENTION_SIGNATURE):
        return base
    problem = _problem("appended", RETENTION_SIGNATURE, "no evidence was deleted after the run was signed; remove it")
    return _altered(problem, base)


def _check_reduction(run: Path, trust: Trust | None, base: SignatureCheck) -> SignatureCheck:
    """Require a second signature for evidence that was deleted after the run was signed."""
    try:
        signed = _read(run, RETENTION_SIGNATURE)
    except InputError as error:
        return _altered(_problem("changed", RETENTION_SIGNATURE, error.message), base)
    followed = _follow(run, signed) if signed else None
    if signed is None or followed is None or followed.altered or followed.later:
        why = "evidence was deleted after the run was signed, and no signature covers that; `ab sign` adds one"
        return replace(base, state=State.REDUCED, why=why, problems=(_problem("removed", "tasks", why),))
    signer, objection = _signer(signed, trust)
    if objection:
        return _untrusted(base, RETENTION_SIGNATURE, objection)
    return replace(base, reduced_by=signer)


def _altered(problem: Problem, base: SignatureCheck = SignatureCheck(State.ALTERED)) -> SignatureCheck:  # noqa: B008 - frozen
    return replace(base, state=State.ALTERED, why=str(problem), problems=(problem,))


def _untrusted(base: SignatureCheck, name: str, objection: str) -> SignatureCheck:
    message = f"signed with {base.signer}, {objection}" if base.signer else objection
    return replace(base, state=State.UNTRUSTED, why=objection, problems=(_problem("inconsistent", name, message),))


def _signer(signed: _Signed, trust: Trust | None) -> tuple[str, str]:
    """Return who signed, and why that does not count; the second is empty if it does."""
    key_ids = ", ".join(signature.key_id for signature in signed.envelope.signatures)
    if trust is None:
        return key_ids, NOT_CHECKED
    objection, claimed = "", {signature.key_id for signature in signed.envelope.signatures}
    for key, entry in trust.keys:
        if not signed.envelope.signed_by(key):
            if key.key_id in claimed:
                objection = f"the signature of {entry.name} is wrong: it was made over something else"
            continue
        objection = entry.objection(signed.statement.predicate.signed_at)
        if not objection:
            return entry.name, ""
    return ("", objection) if objection else (key_ids, f"which is not {trust.keys_text}")


def _read(run: Path, name: str) -> _Signed | None:
    data = content(run / name)
    if data is None:
        return None
    try:
        envelope = read_envelope(data, PAYLOAD_TYPE)
        signed = _Signed(envelope, read_statement(envelope.payload))
    except (BadEnvelope, BadStatement) as error:
        raise InputError(str(error)) from None
    if envelope.encoded() != data:
        # No signature covers further members and spaces, but readers could take them for a part of the statement.
        raise InputError("has other bytes than `ab sign` writes")
    return signed


def _follow(run: Path, signed: _Signed) -> _Followed:
    """Compare the run with the statement. Events after the signed ones are returned, not judged."""
    chain = signed.statement.predicate.chain
    files = signed.statement.files()
    data = content(run / EVENTS) or b""
    prefix, rest = data[: chain.bytes], data[chain.bytes :]
    later = tuple(_event_types(rest))
    if sha256_hex(prefix) == files.get(EVENTS) and later and set(later) != {RunReduced.type}:
        return _Followed((), later)  # other files changed too, as they must
    altered = list(_differences(run, {name: sha256 for name, sha256 in files.items() if name != EVENTS}))
    if sha256_hex(prefix) != files.get(EVENTS) or _last_hash(prefix) != chain.head:
        altered.append(_problem("changed", EVENTS, f"is not the chain with head {chain.head} that was signed"))
    return _Followed(tuple(altered), later)


def _differences(run: Path, files: dict[str, str]) -> Iterator[Problem]:
    # Records first: a changed verdict is what a reader must see.
    for name, sha256 in sorted(files.items(), key=lambda item: (not item[0].endswith(RECORD), item[0])):
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


def _false_claims(run: Path, statement: Statement) -> Iterator[Problem]:
    """Yield what the statement says about the run and the run does not. Other tools may read nothing else."""
    heads = [subject.digest for subject in statement.subject if subject.name == HEAD]
    if heads != [{"sha256": statement.predicate.chain.head.removeprefix("sha256:")}]:
        yield _problem("inconsistent", SIGNATURE, f"{HEAD} is not the head of the chain that was signed")
    names = [subject.name for subject in statement.subject]
    if len(set(names)) != len(names):
        yield _problem("inconsistent", SIGNATURE, "the statement names a subject twice")
    try:
        summary = summarise(run)
    except (InputError, RecordError) as error:
        yield _problem("changed", run.name, error.message)
        return
    for name, value in summary.items():
        if getattr(statement.predicate, name) != value:
            yield _problem("inconsistent", SIGNATURE, f"{name} in the statement is not that of the run")


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
