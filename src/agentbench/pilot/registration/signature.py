"""Signatures of registrations: DSSE envelopes around the bytes of `registration.json`, beside its copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.pilot.folder import REGISTRATION, REGISTRATIONS, read_text
from agentbench.pilot.registration.registration import Registration
from agentbench.record.durable import write_atomic
from agentbench.signing.envelope import BadEnvelope, read_envelope, seal
from agentbench.signing.keys import SigningKey
from agentbench.signing.trust import Trust
from agentbench.trace.verify import Kind, Problem

SIGNATURE = "registration.dsse.json"
PAYLOAD_TYPE = "application/vnd.agentbench.registration+json"


def sign_registration(copy: Path, key: SigningKey) -> None:
    """Sign the copy of a registration in the folder `copy`.

    Raises:
        RecordError: the signature cannot be written.
    """
    envelope = seal(PAYLOAD_TYPE, read_text(copy / REGISTRATION).encode(), [key])
    write_atomic(copy / SIGNATURE, envelope.encoded())


@dataclass(slots=True)
class RegistrationSignatures:
    """The registrations of a pilot compared with their signatures."""

    signers: set[str] = field(default_factory=set)
    not_checked: int = 0
    """Signed registrations for which no key was given."""
    problems: list[Problem] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Describe the signatures for a pilot that verifies."""
        lines = [f"registration signed by {', '.join(sorted(self.signers))}"] if self.signers else []
        return lines + ["signature of the registration not checked; check it with --signed-by KEY"] * bool(
            self.not_checked
        )


def check_signatures(
    folder: Path, registrations: Sequence[Registration], trust: Trust | None, *, required: bool
) -> RegistrationSignatures:
    """Compare every registration with its signature. If none is required, only one that does not match is a problem."""
    checked = RegistrationSignatures()
    for registration in registrations:
        copy = folder / REGISTRATIONS / str(registration.number)
        place = str((copy / SIGNATURE).relative_to(folder))
        kind, message = _check(copy, registration, trust, checked, required=required)
        if message:
            checked.problems.append(Problem(kind, place, message))
    return checked


def _check(
    copy: Path, registration: Registration, trust: Trust | None, checked: RegistrationSignatures, *, required: bool
) -> tuple[Kind, str]:
    """Return what is wrong with the signature of one registration; an empty message if nothing is."""
    if not (copy / SIGNATURE).exists():
        return "missing", f"registration {registration.number} is not signed" if required else ""
    try:
        envelope = read_envelope(read_text(copy / SIGNATURE).encode(), PAYLOAD_TYPE)
        signed = read_text(copy / REGISTRATION).encode()
    except (BadEnvelope, InputError) as error:
        return "changed", f"the signature {error}"
    if envelope.payload != signed:
        return "changed", f"registration {registration.number} differs from what was signed"
    if trust is None:
        checked.not_checked += 1
        return "inconsistent", ""
    signer, objection = trust.signer(envelope, registration.frozen_at)
    if signer:
        checked.signers.add(signer)
    elif not required:
        checked.not_checked += 1
        return "inconsistent", ""
    return "inconsistent", objection
