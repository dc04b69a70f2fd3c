"""Keys of the channel between driver and nodes: one self-signed certificate each, and each side trusts exactly the other's.

Private keys exist in memory only. A node sends its certificate to the driver through Ray, and gets the driver's with its start.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import field
from datetime import UTC, datetime, timedelta

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass

_CLOCK_DIFFERENCE = timedelta(days=2)
_VALID = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class ChannelKey:
    """A private key and its certificate, both in PEM."""

    certificate: str
    private: bytes = field(repr=False)


def new_channel_key(name: str) -> ChannelKey:
    """Create a key and a certificate for one run."""
    from cryptography import x509  # noqa: PLC0415 - only runs on a cluster need it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:60])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_DIFFERENCE)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ChannelKey(certificate.public_bytes(serialization.Encoding.PEM).decode(), private)


def driver_context(own: ChannelKey) -> ssl.SSLContext:
    """Return the driver's side. It accepts no node until `load_verify_locations` adds the node's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _with_key(context, own)


def node_context(own: ChannelKey, driver_certificate: str) -> ssl.SSLContext:
    """Return a node's side, which accepts only the driver's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # the certificate itself is pinned, wherever the driver runs
    context.load_verify_locations(cadata=driver_certificate)
    return _with_key(context, own)


def fingerprint(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in DER."""
    return sha256_hex(certificate)


def fingerprint_of_pem(certificate: str) -> str:
    return fingerprint(ssl.PEM_cert_to_DER_cert(certificate))


def _with_key(context: ssl.SSLContext, own: ChannelKey) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # The library reads keys from files only; this one is in memory.
    fd = os.memfd_create("channel-key", os.MFD_CLOEXEC)
    try:
        os.write(fd, own.private + own.certificate.encode())
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context
