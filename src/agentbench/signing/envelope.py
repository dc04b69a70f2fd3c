"""DSSE envelopes (Dead Simple Signing Envelope, v1): bytes with their type and signatures over both.

Any DSSE verifier reads them. A signature covers `"DSSEv1" SP len(type) SP type SP len(payload) SP payload`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import replace

from agentbench.core.canonical import CanonicalError, Json, parse_strict
from agentbench.core.dataclass import dataclass
from agentbench.signing.keys import PublicKey, SigningKey

MAX_BYTES = 64 * 1024 * 1024
MAX_SIGNATURES = 64


class BadEnvelope(ValueError):
    """Bytes that are not an envelope; the message says why."""


@dataclass(frozen=True, slots=True)
class Signature:
    key_id: str
    """A hint which key to try; not covered by the signature."""
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def signed_by(self, key: PublicKey) -> bool:
        """Return whether one of the signatures was made with this key."""
        data = _signed_bytes(self.payload_type, self.payload)
        return any(key.verifies(signature.value, data) for signature in self.signatures)

    def with_signature(self, key: SigningKey) -> Envelope:
        """Return the envelope with a signature of this key, which replaces an earlier one."""
        others = (signature for signature in self.signatures if signature.key_id != key.public.key_id)
        return replace(self, signatures=(*others, *seal(self.payload_type, self.payload, [key]).signatures))

    def encoded(self) -> bytes:
        """Return the JSON form."""
        value = {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": signature.key_id, "sig": base64.b64encode(signature.value).decode()}
                for signature in self.signatures
            ],
        }
        return json.dumps(value, indent=1).encode() + b"\n"


def seal(payload_type: str, payload: bytes, keys: Sequence[SigningKey]) -> Envelope:
    """Sign a payload with every key."""
    data = _signed_bytes(payload_type, payload)
    return Envelope(payload_type, payload, tuple(Signature(key.public.key_id, key.sign(data)) for key in keys))


def read_envelope(data: bytes, payload_type: str) -> Envelope:
    """Parse an envelope and require its type. Signatures are not checked.

    Raises:
        BadEnvelope: it is truncated, malformed, or of another type.
    """
    if len(data) > MAX_BYTES:
        raise BadEnvelope(f"is larger than {MAX_BYTES} bytes")
    try:
        value = parse_strict(data)
    except CanonicalError as error:
        raise BadEnvelope(f"is not an envelope: {error}") from None
    if not isinstance(value, dict):
        raise BadEnvelope("is not an envelope: expected an object")
    if value.get("payloadType") != payload_type:
        raise BadEnvelope(f"has payloadType {value.get('payloadType')!r}, expected {payload_type!r}")
    signatures = value.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise BadEnvelope("has no signatures")
    if len(signatures) > MAX_SIGNATURES:
        raise BadEnvelope(f"has more than {MAX_SIGNATURES} signatures")
    return Envelope(payload_type, _decoded(value.get("payload")), tuple(map(_signature, signatures)))


def _signature(value: Json) -> Signature:
    if not isinstance(value, dict):
        raise BadEnvelope("has a signature that is not an object")
    key_id = value.get("keyid", "")
    return Signature(key_id if isinstance(key_id, str) else "", _decoded(value.get("sig")))


def _decoded(value: Json) -> bytes:
    if not isinstance(value, str):
        raise BadEnvelope("lacks a payload or a signature")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadEnvelope("has a payload or a signature that is not base64") from None


def _signed_bytes(payload_type: str, payload: bytes) -> bytes:
    name = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)
