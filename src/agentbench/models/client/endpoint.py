"""Where a model is served, and how it wants to be spoken to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from agentbench.core.errors import InputError
from agentbench.models.keys import Secret


class Dialect(StrEnum):
    """The three ways to talk to a model over HTTP."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


PATHS: Mapping[Dialect, str] = {
    Dialect.CHAT: "/chat/completions",
    Dialect.RESPONSES: "/responses",
    Dialect.MESSAGES: "/messages",
}
"""Below the base URL, the same with every provider."""

Auth = Literal["bearer", "api-key", "anthropic"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One service. Every endpoint speaks the chat dialect; others are translated where it does not speak them."""

    provider: str
    base_url: str
    key: Secret | None = None
    auth: Auth = "bearer"
    dialects: frozenset[Dialect] = frozenset({Dialect.CHAT})
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    def url(self, dialect: Dialect) -> str:
        return self.base_url.rstrip("/") + PATHS[dialect]

    def credentials(self, dialect: Dialect) -> dict[str, str]:
        """The headers that hold the key. Nothing but the request itself may see them."""
        if self.key is None:
            return {}
        value = self.key.reveal()
        if self.auth == "api-key":
            return {"api-key": value}
        # Anthropic's own dialect has a header of its own, its chat-compatible one does as everybody does.
        if self.auth == "anthropic" and dialect is Dialect.MESSAGES:
            return {"x-api-key": value}
        return {"authorization": f"Bearer {value}"}


def check_url(url: str, what: str) -> None:
    """
    Raises:
        InputError: no http(s) URL with a host, or one with a user, a query or a fragment in it.
    """
    try:
        parts = urlsplit(url)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_sound = None, False
    sound = parts is not None and parts.scheme in {"http", "https"} and parts.hostname and port_is_sound
    if not sound or parts is None or parts.username or parts.password or parts.query or parts.fragment:
        msg = f"{what}: expected a URL such as https://host/v1 without user, query or fragment, found {_shown(url)!r}"
        raise InputError(msg)


def check_allowed(endpoint: Endpoint, allowed: tuple[str, ...]) -> None:
    """Hold an endpoint to the list of those that code may be sent to. An empty list allows all.

    An entry is a host (`*` matches a part of it) or the beginning of a URL.

    Raises:
        InputError: it is not on the list.
    """
    if not allowed:
        return
    parts = urlsplit(endpoint.base_url)
    host = (parts.hostname or "").lower()
    for entry in allowed:
        if "://" in entry:
            prefix = entry.rstrip("/")
            if endpoint.base_url == prefix or endpoint.base_url.startswith(prefix + "/"):
                return
        elif fnmatchcase(host, entry.lower()):
            return
    msg = f"code may not be sent to {host}: the list of allowed endpoints has {', '.join(allowed)}"
    raise InputError(msg, remedy="use another model, or change AB_ALLOWED_ENDPOINTS")


def _shown(url: str) -> str:
    """A URL as a message may show it: what stands before an @ may be a password."""
    return url.rsplit("@", 1)[-1][:200]
