"""Files of other machines: http and https alone, through the proxies and certificates of the host's settings."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

_ANSWER_SEC = 60.0


def open_web(url: str, *, headers: Mapping[str, str] | None = None, certificates: str | None = None) -> BinaryIO | None:
    """The body of an answer; None when it leads to something that is neither http nor https.

    A user and password inside the address are sent to that host alone.

    Raises:
        OSError, ValueError, http.client.HTTPException: it cannot be had.
    """
    address, authorization = _split_credentials(url)
    request = urllib.request.Request(address, headers=dict(headers or {}))  # noqa: S310 - the handlers are ours
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    context = ssl.create_default_context(cafile=certificates) if certificates else None
    # Only these handlers: a redirect must not lead to a file of this machine.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener.open(request, timeout=_ANSWER_SEC)  # type: ignore[no-any-return]  # urllib is untyped here


def _split_credentials(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if "@" not in parts.netloc or parts.scheme not in {"http", "https"}:
        return url, ""
    user, _, host = parts.netloc.rpartition("@")
    basic = base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {basic}"


WEB_ERRORS = (OSError, ValueError, http.client.HTTPException, urllib.error.URLError)
