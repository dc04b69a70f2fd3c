"""Secrets in Δ: what is graded is exact, what is recorded has placeholders, and the record says so.

A known value gets into Δ only if the agent found it: one that the contract declares for its setup may lie in what setup left;
a key of the host never enters a sandbox, and can only be there by chance.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.canonical import sha256_hex
from agentbench.trace.events import IntegrityFinding, PatchExtracted
from agentbench.trace.redaction import Redactor

RULE = "secret.in_patch"


def recorded_text(patch: bytes, redact: Redactor | None) -> bytes:
    """The text of Δ as it is kept. Shapes of keys stay: they are in honest fixtures, and scorers look for them."""
    return patch if redact is None else redact.named(patch)


def as_recorded(event: PatchExtracted, patch: bytes, kept: bytes) -> PatchExtracted:
    """The event of Δ, about the text that is kept."""
    if kept == patch:
        return event
    known = {"sha256": sha256_hex(kept), "bytes": len(kept), "exact_sha256": event.sha256}
    return event.model_copy(update=known)


def secret_finding(patch: bytes, kept: bytes, declared: Mapping[str, str]) -> IntegrityFinding | None:
    """Grave where Δ adds a value that the contract declares as a secret; else a note that the record is not exact."""
    if kept == patch:
        return None
    added = b"\n".join(line for line in patch.split(b"\n") if line.startswith(b"+"))
    leaked = [name for name, value in sorted(declared.items()) if _holds(added, name, value)]
    if leaked:
        told = f"Δ writes down {', '.join(leaked)}, which the contract declares as a secret; the recorded patch has placeholders"
        return IntegrityFinding(rule=RULE, severity="gate", detail=told)
    told = "Δ holds the value of a key of this machine; the recorded patch has placeholders, what was graded had not"
    return IntegrityFinding(rule=RULE, severity="note", detail=told)


def _holds(data: bytes, name: str, value: str) -> bool:
    return Redactor({name: value}, shapes=False).named(data) != data
