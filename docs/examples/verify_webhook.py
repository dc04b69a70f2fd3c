"""Verifies notifications of `ab run --notify`. Give `genuine` the body as it arrived, before it is parsed."""

import hashlib
import hmac
import time

MAX_AGE_SEC = 300


def genuine(body: bytes, header: str, secret: bytes) -> bool:
    """Return whether the value of X-AgentBench-Signature belongs to this body and is recent."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    sent = parts.get("t", "")
    expected = hmac.new(secret, sent.encode() + b"." + body, hashlib.sha256).hexdigest()
    recent = sent.isdigit() and abs(time.time() - int(sent)) <= MAX_AGE_SEC
    return recent and hmac.compare_digest(expected, parts.get("v1", ""))
