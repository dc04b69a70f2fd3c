"""One line of a log: its bytes and its hash.

    h_i = SHA-256(domain ‖ h_(i-1) ‖ canonical(event without `hash`))

A line is the canonical form of the whole event, so its keys have a fixed order, and the hashed part is the line without its
`hash` member. Verification therefore hashes the bytes of the file and does not depend on a JSON parser.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from pydantic import ValidationError

from agentbench.core.canonical import CanonicalError, Json, parse_canonical
from agentbench.core.dataclass import dataclass
from agentbench.trace.events import EVENT_TYPES, Actor, Payload

DOMAIN = b"agentbench/event/v1\x00"
GENESIS = "sha256:" + "0" * 64
"""`prev` of the first event of a log."""

_LINE = re.compile(
    rb'(\{"actor":"(agent|harness|monitor|operator)",)"hash":"(sha256:[0-9a-f]{64})",("payload":(\{.*\}),'
    rb'"prev":"(sha256:[0-9a-f]{64})","seq":([1-9][0-9]{0,15}),"t":(0|[1-9][0-9]{0,15}),"type":"([a-z_]{1,40})"\})',
    re.DOTALL,
)

_ACTORS: dict[bytes, Actor] = {b"agent": "agent", b"harness": "harness", b"monitor": "monitor", b"operator": "operator"}


class BadLine(ValueError):
    """A line that is not a valid event."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event with its typed payload."""

    seq: int
    t: int
    type: str
    actor: Actor
    payload: Payload
    prev: str
    hash: str


class Line(NamedTuple):
    """One parsed line; the payload is still bytes."""

    actor: Actor
    hash: str
    payload: bytes
    prev: str
    seq: int
    t: int
    type: str
    body: bytes
    """The hashed bytes: the line without its `hash` member."""

    def computed(self) -> str:
        """Compute the hash of this line from its `prev` and body."""
        return link(self.prev, self.body)

    def value(self) -> Mapping[str, Json]:
        """Return the payload as plain values.

        Raises:
            BadLine: the payload is not canonical JSON.
        """
        try:
            value = parse_canonical(self.payload)
        except CanonicalError as error:
            raise BadLine(f"invalid payload: {error}") from None
        if not isinstance(value, dict):
            raise BadLine("the payload is not an object")
        return value

    def typed(self) -> Payload:
        """Return the payload as its model.

        Raises:
            BadLine: the type is unknown, or the payload does not match it.
        """
        model = EVENT_TYPES.get(self.type)
        if model is None:
            raise BadLine(f"unknown event type '{self.type}'")
        try:
            return model.model_validate(self.value())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise BadLine(f"payload of {self.type}: {place}: {first['msg']}") from None

    def event(self) -> Event:
        return Event(self.seq, self.t, self.type, self.actor, self.typed(), self.prev, self.hash)


def link(prev: str, body: bytes) -> str:
    """Return the hash of an event that follows `prev`."""
    return "sha256:" + hashlib.sha256(DOMAIN + bytes.fromhex(prev[7:]) + body).hexdigest()


def write_line(payload: bytes, *, event_type: str, actor: Actor, seq: int, t: int, prev: str) -> tuple[bytes, str]:
    """Return the line (with newline) and the hash of an event with the given canonical payload."""
    front = b'{"actor":"%b",' % actor.encode()
    back = b'"payload":%b,"prev":"%b","seq":%d,"t":%d,"type":"%b"}' % (
        payload,
        prev.encode(),
        seq,
        t,
        event_type.encode(),
    )
    digest = link(prev, front + back)
    return b'%b"hash":"%b",%b\n' % (front, digest.encode(), back), digest


def read_line(raw: bytes) -> Line:
    """Parse a line without its newline. The payload is not parsed.

    Raises:
        BadLine: the line is not an event.
    """
    match = _LINE.fullmatch(raw)
    if match is None:
        raise BadLine("not an event in canonical form")
    front, actor, digest, back, payload, prev, seq, t, event_type = match.groups()
    return Line(
        _ACTORS[actor], digest.decode(), payload, prev.decode(), int(seq), int(t), event_type.decode(), front + back
    )
