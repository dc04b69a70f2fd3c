"""Where an agent may go: the entries of `network_allow`, and what a client may call a destination.

An entry is a host (`pypi.org`), every host below one (`*.pythonhosted.org`) or an address, each with a port when it is not 80 or 443
(`index.example:8080`). What is not public (loopback, private, link-local and so on) must be an address with its port.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

USUAL_PORTS = frozenset({80, 443})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\Z")
_LABEL = 63
_OPEN = ipaddress.ip_network("2000::/3")
"""All of IPv6 that anybody on the open network has. Outside of it lie also addresses that stand for IPv4 ones (::a.b.c.d,
64:ff9b::/96) and those of a site (fec0::/10), which the standard library takes for global."""
_CARRIERS = ipaddress.ip_network("2002::/16")
"""Addresses inside it that stand for IPv4 ones."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A host and port as a request names them; the host in small letters, an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list."""

    host: str
    port: int | None
    below: bool = False

    def covers(self, there: Destination) -> bool:
        if there.port != self.port if self.port is not None else there.port not in USUAL_PORTS:
            return False
        return there.host.endswith(f".{self.host}") if self.below else there.host == self.host


def parse_authority(text: str, default_port: int | None) -> Destination:
    """`host`, `host:port` or `[v6]:port`, and nothing else: no user, no path, no other way to write an address.

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@\[\]\\#?%]+))(?::([0-9]{1,5}))?", text, re.ASCII)
    if found is None:
        msg = "expected host or host:port"
        raise ValueError(msg)
    port = default_port if found[3] is None else int(found[3])
    if port is None or not 0 < port < 65536:
        msg = "expected a port from 1 to 65535"
        raise ValueError(msg)
    if found[1] is not None:
        return Destination(str(ipaddress.IPv6Address(found[1])), port)
    host = found[2].lower()
    if address_of(host) is None:
        host = host.removesuffix(".")
        if _NAME.match(host) is None or any(len(label) > _LABEL for label in host.split(".")):
            msg = "expected the name of a host"
            raise ValueError(msg)
        if re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)", host.rsplit(".", 1)[-1]):
            # 127.1, 0x7f000001, 2130706433: what resolvers take for an address is no name.
            msg = "expected an address in its usual form"
            raise ValueError(msg)
    return Destination(host, port)


def parse_entry(text: str) -> Entry:
    """
    Raises:
        ValueError: it is no entry.
    """
    below = text.startswith("*.")
    there = parse_authority(text.removeprefix("*."), 1)
    explicit = re.search(r":[0-9]+\Z", text) is not None and not text.endswith("]")
    address = address_of(there.host)
    if address is not None and below:
        msg = "no host is below an address"
        raise ValueError(msg)
    if address is not None and not public(address) and not explicit:
        msg = f"{address} is not public: it needs its port"
        raise ValueError(msg)
    return Entry(there.host, there.port if explicit else None, below)


def public(address: Address) -> bool:
    """Whether an address is one of the open network. What carries another address is judged as that one, or not at all."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return public(address.ipv4_mapped)
        if address not in _OPEN or address in _CARRIERS:
            return False
    return address.is_global and not address.is_multicast


def address_of(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
