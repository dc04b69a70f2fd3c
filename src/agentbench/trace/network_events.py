"""Events of the recording proxy: what an agent asked the network for, and what came of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentbench.trace.payload import Excerpt, Payload

Refusal = Literal["", "malformed", "not_listed", "not_public", "limit"]


class NetworkRequest(Payload):
    """A request of the agent, written down before anything but a look-up of a listed name leaves the machine."""

    type = "network_request"
    request_id: str
    way: Literal["http", "tunnel"]
    """`http`: a plain request, recorded in full. `tunnel`: bytes that are passed on, most often TLS."""
    method: str
    host: str
    """Empty when the request names none that could be one."""
    port: int
    target: str
    head: Excerpt = Field(default_factory=Excerpt)
    """The headers as the client sent them; values that authenticate are left out."""
    refused: Refusal = ""
    """Why nothing was sent; empty when it may go on."""
    why: str = ""


class NetworkResponse(Payload):
    """The end of a request that was allowed.

    Counts and digests are over everything: the bodies of a plain request, all bytes of a tunnel. What is kept of bodies is bounded.
    """

    type = "network_response"
    request_id: str
    address: str
    """What the name stood for when it was asked for, by the harness."""
    status: int | None
    """Of the answer to a plain request; null when none came, or for a tunnel."""
    request_body: Excerpt = Field(default_factory=Excerpt)
    head: Excerpt = Field(default_factory=Excerpt)
    body: Excerpt = Field(default_factory=Excerpt)
    sent_bytes: int
    sent_sha256: str
    received_bytes: int
    received_sha256: str
    duration_us: int
    error: str = ""


class NetworkUsed(Payload):
    """All that went through the proxy of an attempt."""

    type = "network_used"
    requests: int
    refused: int
    turned_away: int
    """Connections that were closed unread because too many were open."""
    unrecorded: int
    """Requests refused beyond the number that is written down one by one."""
    sent_bytes: int
    received_bytes: int
