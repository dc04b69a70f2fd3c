"""The proxy's view of a request: its destination, the head sent to the server, and the headers that are recorded."""

from __future__ import annotations

import re

from agentbench.contract.network_allow import Destination, parse_authority
from agentbench.core.http1 import ONCE, BadRequest, RequestHead

_URL = re.compile(r"http://([^/?#]*)(/[^#]*|\?[^#]*)?\Z", re.IGNORECASE)
_SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
HOP_BY_HOP = frozenset(
    (
        *("connection", "proxy-connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
        *("host", "proxy-authorization", "proxy-authenticate", "http2-settings"),
    )
)
"""Headers between two neighbours, which are never forwarded."""


def is_tunnel(head: RequestHead) -> bool:
    return head.method == "CONNECT"


def destination_of(head: RequestHead) -> tuple[Destination, str]:
    """Return the destination, and the path requested there (empty for a tunnel).

    Raises:
        BadRequest: the target names no destination.
    """
    try:
        if is_tunnel(head):
            return parse_authority(head.target, None), ""
        url = _URL.match(head.target)
        if url is None:
            raise BadRequest(400, "expected http://host/path, or CONNECT host:port")
        path = url[2] or "/"
        return parse_authority(url[1], 80), path if path.startswith("/") else f"/{path}"
    except ValueError as error:
        raise BadRequest(400, f"{error}") from None


def forwarded_head(head: RequestHead, destination: Destination, path: str) -> bytes:
    """Return the head for the server: with the destination's name, without hop-by-hop headers."""
    listed = {name.strip().lower() for name in head.headers.get("connection", "").split(",")}
    dropped = HOP_BY_HOP | (listed - ONCE)
    host = str(destination) if destination.port != 80 else str(destination).removesuffix(":80")
    lines = [f"{head.method} {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in head.fields if name.lower() not in dropped]
    if head.chunked:
        lines.append("Transfer-Encoding: chunked")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def recorded_fields(fields: tuple[tuple[str, str], ...]) -> bytes:
    """Return headers as they are recorded, without the values that authenticate."""
    lines = (f"{name}: {'[left out]' if name.lower() in _SECRET else value}" for name, value in fields)
    return "\n".join(lines).encode("latin-1", "replace")
