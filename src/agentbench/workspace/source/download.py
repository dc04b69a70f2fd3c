"""Downloads over http and https, with the proxies and certificates of the host."""

from __future__ import annotations

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import cache
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

_TIMEOUT_SEC = 60.0


def open_url(url: str, *, headers: Mapping[str, str] | None = None, certificates: str | None = None) -> BinaryIO:
    """Open the body of a response. A user and password in the URL are sent to that host only.

    Raises:
        OSError, ValueError, http.client.HTTPException: the download failed, or the URL or a redirect is not http or https.
    """
    address, authorization = _split_credentials(url)
    request = urllib.request.Request(address, headers=dict(headers or {}))  # noqa: S310 - see opener
    if authorization:
        request.add_unredirected_header("Authorization", authorization)
    # Only these handlers, so that a redirect cannot read a local file.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=_context(certificates)),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    response: BinaryIO | None = opener.open(request, timeout=_TIMEOUT_SEC)
    if response is None:
        raise ValueError("the URL or a redirect is not http or https")
    return response


@cache
def _context(certificates: str | None) -> ssl.SSLContext:
    """Read the trusted certificates once: that takes longer than a request."""
    return ssl.create_default_context(cafile=certificates)


def _split_credentials(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if "@" not in parts.netloc or parts.scheme not in {"http", "https"}:
        return url, ""
    user, _, host = parts.netloc.rpartition("@")
    basic = base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {basic}"


DOWNLOAD_ERRORS = (OSError, ValueError, http.client.HTTPException, urllib.error.URLError)
