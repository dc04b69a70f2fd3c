"""Entries of `network_allow` and the destinations that requests name.

An entry is a host (`pypi.org`), all subdomains of a host (`*.pythonhosted.org`) or an IP address, with a port unless it
is 80 or 443 (`index.example:8080`). A non-public destination (loopback, private, link-local, …) must be given as an
address with a port.
"""

from __future__ import annotations

import ipaddress
import re

from agentbench.core.dataclass import dataclass

DEFAULT_PORTS = frozenset({80, 443})

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\Z")
_MAX_LABEL = 63
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""The IPv6 range in public use. The standard library also takes some addresses outside it for global: those that embed
IPv4 addresses (::a.b.c.d, 64:ff9b::/96) and site-local ones (fec0::/10)."""
_SIX_TO_FOUR = ipaddress.ip_network("2002::/16")
"""6to4 addresses: inside the public range, but they embed IPv4 addresses."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Host and port of a request. The host is in lower case, an IPv6 address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of `network_allow`; with `subdomains` it covers the subdomains of `host`, but not `host` itself."""

    host: str
    port: int | None
    subdomains: bool = False

    def covers(self, destination: Destination) -> bool:
        if destination.port != self.port if self.port is not None else destination.port not in DEFAULT_PORTS:
            return False
        return destination.host.endswith(f".{self.host}") if self.subdomains else destination.host == self.host


def parse_authority(text: str, default_port: int | None) -> Destination:
    """Parse `host`, `host:port` or `[v6]:port`. Users, paths and unusual spellings of addresses are rejected.

    Raises:
        ValueError: the text has another form.
    """
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:/@\[\]\\#?%]+))(?::([0-9]{1,5}))?", text, re.ASCII)
    if match is None:
        raise ValueError("expected host or host:port")
    port = default_port if match[3] is None else int(match[3])
    if port is None or not 0 < port < 65536:
        raise ValueError("expected a port from 1 to 65535")
    if match[1] is not None:
        return Destination(str(ipaddress.IPv6Address(match[1])), port)
    host = match[2].lower()
    if address_of(host) is None:
        host = host.removesuffix(".")
        if _NAME.match(host) is None or any(len(label) > _MAX_LABEL for label in host.split(".")):
            raise ValueError("expected a host name")
        if re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)", host.rsplit(".", 1)[-1]):
            # Resolvers take 127.1, 0x7f000001 and 2130706433 for addresses, so they are not host names.
            raise ValueError("expected an IP address in its usual form")
    return Destination(host, port)


def parse_entry(text: str) -> Entry:
    """Parse one entry of `network_allow`.

    Raises:
        ValueError: the text is not a valid entry.
    """
    subdomains = text.startswith("*.")
    destination = parse_authority(text.removeprefix("*."), 1)
    explicit = re.search(r":[0-9]+\Z", text) is not None and not text.endswith("]")
    address = address_of(destination.host)
    if address is not None and subdomains:
        raise ValueError("an IP address has no subdomains")
    if address is not None and not is_public(address) and not explicit:
        raise ValueError(f"{address} is not a public address; give its port")
    return Entry(destination.host, destination.port if explicit else None, subdomains)


def is_public(address: Address) -> bool:
    """Return whether an address is public. Of the IPv6 addresses that embed an IPv4 address, only mapped ones can be."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST or address in _SIX_TO_FOUR:
            return False
    return address.is_global and not address.is_multicast


def address_of(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
