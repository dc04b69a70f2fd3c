"""Where a request may go: the contract's list, and addresses that are nobody's inside.

Names are resolved here, once for each request, and the connection goes to the address that was
looked at: a name that changes its meaning in between changes nothing. What is not public (loopback, private, link-local and so on)
must be listed as an address with its port: no name leads there.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence

from agentbench.contract.network_allow import Destination, Entry, address_of, is_public, parse_entry
from agentbench.core.errors import InputError
from agentbench.trace.network_events import Refusal

Resolver = Callable[[str, int], Sequence[str]]


class Refused(Exception):
    """A destination that is not allowed."""

    def __init__(self, kind: Refusal, why: str) -> None:
        super().__init__(why)
        self.kind: Refusal = kind
        self.why = why


class AllowList:
    """The list of one contract."""

    def __init__(self, entries: Iterable[Entry], resolve: Resolver | None = None) -> None:
        self._entries = tuple(entries)
        self._resolve = resolve or resolved

    @classmethod
    def of(cls, texts: Iterable[str], *, place: str = "environment.network_allow") -> AllowList:
        """
        Raises:
            InputError: an entry that is none, with its place.
        """
        entries = []
        for index, text in enumerate(texts):
            try:
                entries.append(parse_entry(text))
            except ValueError as error:
                msg = f"{place}[{index}]: {text!r}: {error}"
                raise InputError(msg, remedy="write host, host:port, *.domain or an address with its port") from None
        return cls(entries)

    def listed(self, there: Destination) -> None:
        """
        Raises:
            Refused: it is not on the list.
        """
        if not any(entry.covers(there) for entry in self._entries):
            literal = address_of(there.host)
            if there.host == "localhost" or (literal is not None and not is_public(literal)):
                raise Refused("not_public", f"{there} is not a public address")
            raise Refused("not_listed", f"{there} is not in network_allow")

    def addresses(self, there: Destination) -> tuple[str, ...]:
        """What a destination on the list stands for, all of it fit to connect to.

        Raises:
            Refused: not on the list, or it stands for something that is not public.
            OSError: the name means nothing.
        """
        self.listed(there)
        literal = address_of(there.host)
        if literal is not None:
            return (str(literal),)
        found = tuple(dict.fromkeys(self._resolve(there.host, there.port)))
        # One that is not public among others is enough: a name that is sometimes ours is not to be trusted at other times.
        inner = [one for one in found if not is_public(ipaddress.ip_address(one.split("%")[0]))]
        if inner:
            raise Refused("not_public", f"{there.host} stands for {inner[0]}, which is not a public address")
        if not found:
            msg = f"{there.host} has no address"
            raise OSError(msg)
        return found


def resolved(host: str, port: int) -> list[str]:
    """
    Raises:
        OSError: the name means nothing.
    """
    return [str(one[4][0]) for one in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
