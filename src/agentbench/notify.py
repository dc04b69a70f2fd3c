"""Webhook: sends signed JSON about a run to a URL, from a thread of its own, with retries.

    X-AgentBench-Signature: t=<seconds since the epoch>,v1=<hex HMAC-SHA256 of "<t>.<body>">

A delivery never delays or fails a run: what cannot be delivered becomes a warning. This module must not import other packages of
the project than `core`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.ids import new_ulid, now_iso

SECRET = "AB_NOTIFY_SECRET"
SIGNATURE = "X-AgentBench-Signature"
MIN_SECRET = 16
MAX_BODY = 64_000
MAX_QUEUED = 1_000
TRY_SEC = 10.0
"""Time limit of one request."""
WAITS_SEC = (1.0, 2.0, 4.0, 8.0)
"""Pauses between the tries of one delivery."""
CLOSE_SEC = 60.0
"""How long the end of a command waits for deliveries."""
_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL and the secret that signs what is sent to it."""

    url: str
    secret: bytes

    @classmethod
    def of(cls, url: str, secret: str) -> Webhook:
        """
        Raises:
            InputError: the URL is not one of HTTP, or the secret is missing or short.
        """
        parts = _parts(url)
        if parts is None:
            raise InputError("--notify: expected a URL of ASCII characters that starts with https:// or http://")
        if parts.username or parts.password:
            raise InputError(
                "--notify: the URL must not contain a password", remedy=f"the receiver can check {SIGNATURE}"
            )
        if len(secret) < MIN_SECRET:
            problem = "is shorter than 16 characters" if secret else "is missing"
            remedy = f"set {SECRET}, or notify-secret in the file that `ab config path` names; `openssl rand -hex 32` makes one"
            raise InputError(f"the secret that signs notifications {problem}", remedy=remedy)
        return cls(url, secret.encode())

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc


def _parts(url: str) -> SplitResult | None:
    """Split a URL; None if it is not one that can be posted to. Requests would fail later, with the URL in the message."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:  # unbalanced brackets, or not a port
        return None
    return parts if valid and re.fullmatch(r"[!-~]+", url) else None


def signature(secret: bytes, body: bytes, at: int) -> str:
    """Return the value of the header that signs a body."""
    digest = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


class Notifier:
    """Delivers notifications in order, one at a time."""

    def __init__(self, webhook: Webhook, warn: Callable[[str], None]) -> None:
        self._webhook = webhook
        self._warn = warn
        self._queue: queue.Queue[tuple[str, bytes, str] | None] = queue.Queue(MAX_QUEUED)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver_all, name="notify", daemon=True)
        self._thread.start()

    def send(self, event: str, data: Mapping[str, Json]) -> None:
        """Queue a notification and return at once. Called from any thread."""
        delivery = new_ulid()
        envelope = {"schema_version": 1, "delivery_id": delivery, "event": event, "sent_at": now_iso()}
        body = json.dumps({**envelope, **data}).encode()
        if len(body) > MAX_BODY:
            body = json.dumps({**envelope, "truncated": True}).encode()
        try:
            self._queue.put_nowait((event, body, delivery))
        except queue.Full:
            self._warn(f"notification {event} not sent: {MAX_QUEUED} are waiting")

    def close(self, timeout: float = CLOSE_SEC) -> None:
        """Wait for deliveries, but not longer than `timeout`."""
        end = time.monotonic() + timeout
        try:
            self._queue.put(None, timeout=timeout)
            self._thread.join(max(0.0, end - time.monotonic()))
        except queue.Full:
            pass
        self._closing.set()
        if self._thread.is_alive():
            self._warn(f"notifications to {self._webhook.host} not delivered within {timeout:g} s")

    def _deliver_all(self) -> None:
        while (item := self._queue.get()) is not None and not self._closing.is_set():
            event, body, delivery = item
            problem = self._deliver(event, body, delivery)
            if problem and not self._closing.is_set():
                self._warn(f"notification {event} not delivered to {self._webhook.host}: {problem}")

    def _deliver(self, event: str, body: bytes, delivery: str) -> str:
        """Return why a notification was not delivered, or an empty string."""
        problem, again = "", True
        for wait in (*WAITS_SEC, None):
            problem, again = self._post(event, body, delivery)
            if not again or wait is None or self._closing.wait(wait):
                break
        return problem

    def _post(self, event: str, body: bytes, delivery: str) -> tuple[str, bool]:
        """Send one request. Return the problem, and whether another try can help."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "agentbench",
            "X-AgentBench-Event": event,
            "X-AgentBench-Delivery": delivery,
            SIGNATURE: signature(self._webhook.secret, body, int(time.time())),
        }
        request = Request(self._webhook.url, body, headers, method="POST")  # noqa: S310 - checked by `Webhook.of`
        try:
            with build_opener(_NoRedirect).open(request, timeout=TRY_SEC):
                return "", False
        except HTTPError as error:
            with error:
                return f"HTTP status {error.code}", error.code >= 500 or error.code in _AGAIN
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            return str(reason)[:200] or type(error).__name__, True


class _NoRedirect(HTTPRedirectHandler):
    """A redirected POST would become a GET without body and signature, so a redirect is an error."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        return None
