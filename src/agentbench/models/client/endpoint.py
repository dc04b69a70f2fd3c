"""Endpoints of model services: URL, dialects and credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import urlsplit

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.models.keys import Secret


class Dialect(StrEnum):
    """The HTTP APIs for models."""

    CHAT = "chat"
    RESPONSES = "responses"
    MESSAGES = "messages"


PATHS: Mapping[Dialect, str] = {
    Dialect.CHAT: "/chat/completions",
    Dialect.RESPONSES: "/responses",
    Dialect.MESSAGES: "/messages",
}
"""Below the base URL, the same for every provider."""

UNNAMED = "url"
"""Provider of a model that was given as NAME@URL."""
Auth = Literal["bearer", "api-key", "anthropic"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One service. Every endpoint speaks chat; dialects it does not speak are translated to chat."""

    provider: str
    base_url: str
    key: Secret | None = None
    auth: Auth = "bearer"
    dialects: frozenset[Dialect] = frozenset({Dialect.CHAT})
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The name for messages: the provider, or the URL of a service that was given by its URL."""
        return f"the model service {self.base_url}" if self.provider == UNNAMED else self.provider

    def url(self, dialect: Dialect) -> str:
        return self.base_url.rstrip("/") + PATHS[dialect]

    def credentials(self, dialect: Dialect) -> dict[str, str]:
        """Return the headers with the key, for the request only."""
        if self.key is None:
            return {}
        value = self.key.reveal()
        if self.auth == "api-key":
            return {"api-key": value}
        # Anthropic uses its own header for its own dialect only.
        if self.auth == "anthropic" and dialect is Dialect.MESSAGES:
            return {"x-api-key": value}
        return {"authorization": f"Bearer {value}"}


def check_url(url: str, source: str) -> None:
    """
    Raises:
        InputError: not an http(s) URL with a host, or one with a user, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        valid_port = parts.port is None or parts.port > 0
    except ValueError:
        parts, valid_port = None, False
    valid = parts is not None and parts.scheme in {"http", "https"} and parts.hostname and valid_port
    if not valid or parts is None or parts.username or parts.password or parts.query or parts.fragment:
        msg = f"{source}: expected a URL like https://host/v1 without user, query or fragment, got {_shown(url)!r}"
        raise InputError(msg)


def check_allowed(endpoint: Endpoint, allowed: tuple[str, ...]) -> None:
    """Check an endpoint against the list of those that code may be sent to. An empty list allows all.

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
    msg = f"endpoint {host} is not allowed (AB_ALLOWED_ENDPOINTS: {', '.join(allowed)})"
    raise InputError(msg, remedy="use another model, or add the endpoint to AB_ALLOWED_ENDPOINTS")


def _shown(url: str) -> str:
    """Return the part of a URL that a message may show: before an @ there may be a password."""
    return url.rsplit("@", 1)[-1][:200]
