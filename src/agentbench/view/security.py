"""Who may ask what: checks every request before it reaches the view.

- `Host` must name this server, so that a foreign name that resolves to it (DNS rebinding) is refused.
- `Origin` and `Sec-Fetch-Site` must be this page, so that another page cannot send requests (CSRF).
- A token in the printed address becomes an HttpOnly SameSite cookie; without it nothing is served.
- Actions need a second token, which only the page of this server knows, and are off in a read-only view.
- Bodies and rates are bounded.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import os
import secrets
import socket
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from functools import cached_property
from pathlib import Path
from urllib.parse import parse_qs

from agentbench.core.dataclass import dataclass

MAX_BODY = 128 * 1024
MAX_ADDRESS = 8 * 1024
RATE_PER_SEC = 200.0
BURST = 600.0
ACTION_HEADER = "x-ab-action"
ACTIONS = "/api/actions/"
SECRET_FILE = "view.secret"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a request that is not served."""

    status: int
    message: str


@dataclass
class Bucket:
    """Allows a burst of requests, then a rate."""

    per_sec: float = RATE_PER_SEC
    burst: float = BURST
    _left: float = BURST
    _at: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        now = time.monotonic()
        self._left = min(self.burst, self._left + (now - self._at) * self.per_sec)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def kept_secret(folder: Path) -> bytes:
    """Return the secret of this user, made at its first use. One that others may read or own is not used.

    A server on a port that was chosen uses it: its page goes on when the server is started again.
    """
    path = folder / SECRET_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(secrets.token_bytes(32))
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            status = os.fstat(fd)
            private = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
            secret = file.read(64) if private else b""
    except OSError:
        secret = b""
    return secret if len(secret) == 32 else secrets.token_bytes(32)


@dataclass(frozen=True)
class Guard:
    """The secrets of one server and the checks of its requests."""

    host: str
    port: int
    read_only: bool = False
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """The tokens are derived from it, so that a server that is started again can know the pages of the earlier one."""
    served: str = ""
    """The served folders: a token is for them only."""
    _bucket: Bucket = field(default_factory=Bucket)

    @cached_property
    def token(self) -> str:
        """The token of the printed address."""
        return self._derived("address")

    @cached_property
    def action_token(self) -> str:
        """The token that only the page of this server knows."""
        return self._derived("action")

    @cached_property
    def _cookie_value(self) -> str:
        return self._derived("cookie")

    def _derived(self, purpose: str) -> str:
        text = "\0".join([purpose, self.host, str(self.port), str(self.read_only), self.served])
        return base64.urlsafe_b64encode(hmac.digest(self.secret, text.encode(), "sha256"))[:32].decode()

    @property
    def cookie(self) -> str:
        """Name of the cookie. Cookies ignore ports, so each port needs a name of its own."""
        return f"ab_view_{self.port}"

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::", ""} else self.host  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def set_cookie(self) -> str:
        return f"{self.cookie}={self._cookie_value}; HttpOnly; SameSite=Strict; Path=/"

    def knows_token(self, query: str) -> bool:
        """Return whether the query of an address contains the token."""
        given = parse_qs(query).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), self.token.encode())

    def check(self, method: str, path: str, headers: Mapping[str, str], *, opening: bool = False) -> Refusal | None:
        """Return why a request is refused, or None. `opening`: the address has the token, so no cookie is needed."""
        refusals = (
            (not self._bucket.take(), Refusal(429, "too many requests; wait a moment")),
            (
                not self._own_host(headers.get("host", "")),
                Refusal(421, "unknown Host; open the address that `ab view` printed"),
            ),
            (not self._own_page(headers), Refusal(403, "requests from other pages are refused")),
            (method not in {"GET", "HEAD", "POST"}, Refusal(405, "method not allowed")),
            (
                not opening and not self._has_cookie(headers.get("cookie", "")),
                Refusal(401, "not signed in; open the address that `ab view` printed"),
            ),
        )
        for refused, refusal in refusals:
            if refused:
                return refusal
        return self._check_post(path, headers) if method == "POST" else None

    def _check_post(self, path: str, headers: Mapping[str, str]) -> Refusal | None:
        if headers.get("origin") is None and headers.get("sec-fetch-site") is None:
            return Refusal(403, "a request that writes must come from the page")
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return Refusal(415, "expected application/json")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return Refusal(413, f"expected a body of at most {MAX_BODY} bytes")
        if path.startswith(ACTIONS):
            if self.read_only:
                return Refusal(403, "this view is read-only")
            if not hmac.compare_digest(headers.get(ACTION_HEADER, "").encode(), self.action_token.encode()):
                return Refusal(403, "the token for actions is missing; reload the page")
        return None

    def _own_host(self, given: str) -> bool:
        name, port = _split_host(given)
        if port != self.port:
            return False
        if name in LOOPBACK_NAMES or name == self.host.lower():
            return True
        # A server that others may reach is also known by its addresses and its name; rebinding needs another name.
        return not self.loopback and (_is_address(name) or name in {socket.gethostname().lower(), _fqdn()})

    def _own_page(self, headers: Mapping[str, str]) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            return False
        navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in {None, "same-origin", "none"} or navigation

    def _has_cookie(self, header: str) -> bool:
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie and hmac.compare_digest(value.encode(), self._cookie_value.encode()):
                return True
        return False


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _split_host(given: str) -> tuple[str, int]:
    """Split a Host header into its lower-case name and its port."""
    name, separator, port = given.rpartition(":")
    if not separator or port.endswith("]"):
        name, port = given, "80"
    return name.strip("[]").lower(), int(port) if port.isdecimal() and len(port) < 6 else -1


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _fqdn() -> str:
    return socket.getfqdn().lower()
