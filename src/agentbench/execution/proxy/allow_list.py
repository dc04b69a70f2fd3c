"""Destinations a request may go to: those on the contract's list, at public addresses.

A name is resolved once for each request, and the connection goes to the address that was checked, so a name that changes its
meaning in between has no effect. An address that is not public (loopback, private, link-local and so on) must be listed as an
address with its port; no name may lead there.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence

from agentbench.contract.network_allow import Destination, Entry, address_of, is_public, parse_entry
from agentbench.core.errors import InputError
from agentbench.trace.events import Refusal

Resolver = Callable[[str, int], Sequence[str]]


class Refused(Exception):
    """The destination is not allowed."""

    def __init__(self, kind: Refusal, message: str) -> None:
        super().__init__(message)
        self.kind: Refusal = kind
        self.message = message


class AllowList:
    """The allowed destinations of one contract."""

    def __init__(
        self, entries: Iterable[Entry], resolve: Resolver | None = None, *, key: str = "network_allow"
    ) -> None:
        """`key` names the list in messages."""
        self._entries = tuple(entries)
        self._key = key
        self._resolve = resolve or resolve_name

    @classmethod
    def of(
        cls, texts: Iterable[str], *, place: str = "environment.network_allow", key: str = "network_allow"
    ) -> AllowList:
        """
        Raises:
            InputError: an entry is invalid.
        """
        entries = []
        for index, text in enumerate(texts):
            try:
                entries.append(parse_entry(text))
            except ValueError as error:
                msg = f"{place}[{index}]: {text!r}: {error}"
                raise InputError(msg, remedy="write host, host:port, *.domain or an address with its port") from None
        return cls(entries, key=key)

    def check(self, destination: Destination) -> None:
        """
        Raises:
            Refused: it is not on the list.
        """
        if not any(entry.covers(destination) for entry in self._entries):
            literal = address_of(destination.host)
            if destination.host == "localhost" or (literal is not None and not is_public(literal)):
                raise Refused("not_public", f"{destination} is not a public address")
            raise Refused("not_listed", f"{destination} is not in {self._key}")

    def addresses(self, destination: Destination) -> tuple[str, ...]:
        """Return the addresses of a listed destination.

        Raises:
            Refused: it is not on the list, or resolves to an address that is not public.
            OSError: the name cannot be resolved.
        """
        self.check(destination)
        literal = address_of(destination.host)
        if literal is not None:
            return (str(literal),)
        addresses = tuple(dict.fromkeys(self._resolve(destination.host, destination.port)))
        # One address that is not public is enough: a name that sometimes leads inside is never trusted.
        private = [address for address in addresses if not is_public(ipaddress.ip_address(address.split("%")[0]))]
        if private:
            raise Refused("not_public", f"{destination.host} resolves to {private[0]}, which is not a public address")
        if not addresses:
            raise OSError(f"{destination.host} has no address")
        return addresses


def resolve_name(host: str, port: int) -> list[str]:
    """
    Raises:
        OSError: the name cannot be resolved.
    """
    return [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
