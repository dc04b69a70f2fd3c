"""One line of a log: its bytes and its hash.

    h_i = SHA-256(domain ‖ h_(i-1) ‖ canonical(event without `hash`))

A line is the canonical form of the whole event, so its members come in a fixed order and the part that is hashed is the
line with the `hash` member taken out. Verification therefore hashes the bytes that are there: no reader's idea of JSON
stands between the file and the digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from agentbench.core.canonical import CanonicalError, Json, parse_canonical
from agentbench.trace.events import Actor, Payload
from agentbench.trace.registry import EVENT_TYPES

DOMAIN = b"agentbench/event/v1\x00"
GENESIS = "sha256:" + "0" * 64
"""What the first event of a log has as `prev`."""

_LINE = re.compile(
    rb'(\{"actor":"(agent|harness|monitor|operator)",)"hash":"(sha256:[0-9a-f]{64})",("payload":(\{.*\}),'
    rb'"prev":"(sha256:[0-9a-f]{64})","seq":([1-9][0-9]{0,15}),"t":(0|[1-9][0-9]{0,15}),"type":"([a-z_]{1,40})"\})',
    re.DOTALL,
)

_ACTORS: dict[bytes, Actor] = {b"agent": "agent", b"harness": "harness", b"monitor": "monitor", b"operator": "operator"}


class BadLine(ValueError):
    """A line that no writer of ours wrote."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event as read back, its payload typed."""

    seq: int
    t: int
    type: str
    actor: Actor
    payload: Payload
    prev: str
    hash: str


class Line(NamedTuple):
    """One line taken apart, its payload still bytes."""

    actor: Actor
    hash: str
    payload: bytes
    prev: str
    seq: int
    t: int
    type: str
    body: bytes
    """What the hash is over: the line without its `hash` member."""

    def computed(self) -> str:
        """The hash this line should have, given the `prev` it names."""
        return link(self.prev, self.body)

    def value(self) -> Mapping[str, Json]:
        """The payload as plain values.

        Raises:
            BadLine: not canonical JSON.
        """
        try:
            value = parse_canonical(self.payload)
        except CanonicalError as error:
            msg = f"payload is {error}"
            raise BadLine(msg) from None
        if not isinstance(value, dict):
            msg = "payload is no object"
            raise BadLine(msg)
        return value

    def typed(self) -> Payload:
        """The payload as its model.

        Raises:
            BadLine: unknown type, or a payload that is not of that type.
        """
        model = EVENT_TYPES.get(self.type)
        if model is None:
            msg = f"unknown event type '{self.type}'"
            raise BadLine(msg)
        try:
            return model.model_validate(self.value())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            msg = f"payload of {self.type}: {place}: {first['msg']}"
            raise BadLine(msg) from None

    def event(self) -> Event:
        return Event(self.seq, self.t, self.type, self.actor, self.typed(), self.prev, self.hash)


def link(prev: str, body: bytes) -> str:
    """The hash of an event that follows `prev`."""
    return "sha256:" + hashlib.sha256(DOMAIN + bytes.fromhex(prev[7:]) + body).hexdigest()


def write_line(payload: bytes, *, event_type: str, actor: Actor, seq: int, t: int, prev: str) -> tuple[bytes, str]:
    """The line (with its newline) and the hash of an event whose canonical payload is given."""
    front = b'{"actor":"%b",' % actor.encode()
    back = b'"payload":%b,"prev":"%b","seq":%d,"t":%d,"type":"%b"}' % (
        payload,
        prev.encode(),
        seq,
        t,
        event_type.encode(),
    )
    own = link(prev, front + back)
    return b'%b"hash":"%b",%b\n' % (front, own.encode(), back), own


def read_line(raw: bytes) -> Line:
    """Take a line apart (without its newline). The payload is not looked at yet.

    Raises:
        BadLine: not of the form every line has.
    """
    match = _LINE.fullmatch(raw)
    if match is None:
        msg = "not an event in canonical form"
        raise BadLine(msg)
    front, actor, own, back, payload, prev, seq, t, event_type = match.groups()
    return Line(
        _ACTORS[actor], own.decode(), payload, prev.decode(), int(seq), int(t), event_type.decode(), front + back
    )
