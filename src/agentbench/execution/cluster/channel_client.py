"""A node's end of the channel to the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

import httpx

from agentbench.core.errors import HarnessError
from agentbench.execution.cluster.channel_keys import ChannelKey, node_context
from agentbench.execution.cluster.content import Address
from agentbench.execution.cluster.wire import JsonDict, decode, encode

CONNECT_SEC = 10.0


class ChannelLost(HarnessError):
    """The driver cannot be reached, or has given up on this node."""


class Dismissed(ChannelLost):
    """The driver no longer accepts messages of this node or attempt."""


class ChannelClient:
    """Sends requests to the driver. Safe to use from every thread."""

    def __init__(self, url: str, key: ChannelKey, driver_certificate: str) -> None:
        self._client = httpx.Client(
            base_url=url,
            verify=node_context(key, driver_certificate),
            trust_env=False,
            # A question to a person is answered after minutes; a lost driver is noticed by heartbeats.
            timeout=httpx.Timeout(None, connect=CONNECT_SEC),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    def post(self, path: str, value: JsonDict, *, timeout: float | None = None) -> JsonDict:
        """Send JSON and return the response.

        Raises:
            ChannelLost: no response. HarnessError: the driver could not do it.
        """
        return self.post_bytes(path, encode(value), timeout=timeout)

    def post_bytes(
        self,
        path: str,
        data: bytes | Iterator[bytes],
        *,
        size: int | None = None,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> JsonDict:
        """Send bytes, or `size` bytes as they are produced, and return the response."""
        length = len(data) if isinstance(data, bytes) else size
        sent = {**(headers or {}), "Content-Length": str(length)}
        limit = httpx.Timeout(timeout, connect=CONNECT_SEC)
        try:
            response = self._client.post(path, content=data, headers=sent, timeout=limit)
        except httpx.HTTPError as error:
            raise ChannelLost(f"the driver cannot be reached: {_why(error)}") from error
        return _answer(response.status_code, response.content)

    @contextmanager
    def lines(self, path: str, value: JsonDict) -> Iterator[Iterator[JsonDict]]:
        """Send JSON and yield the JSON lines of the response as they arrive."""
        try:
            with self._client.stream("POST", path, content=encode(value)) as response:
                if response.status_code != 200:
                    _answer(response.status_code, response.read())
                yield (decode(line.encode()) for line in response.iter_lines())
        except httpx.HTTPError as error:
            raise ChannelLost(f"the driver cannot be reached: {_why(error)}") from error

    def fetch(self, address: Address, file: BinaryIO) -> None:
        """Write content to a file, and check it."""
        state = hashlib.sha256()
        try:
            with self._client.stream("GET", f"/content/{address.sha256}") as response:
                if response.status_code != 200:
                    _answer(response.status_code, response.read())
                for chunk in response.iter_bytes():
                    state.update(chunk)
                    file.write(chunk)
        except httpx.HTTPError as error:
            raise ChannelLost(f"content cannot be fetched from the driver: {_why(error)}") from error
        if state.hexdigest() != address.sha256:
            raise HarnessError(f"content {address.sha256} was damaged on its way")

    def close(self) -> None:
        self._client.close()


def _why(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__


def _answer(status: int, data: bytes) -> JsonDict:
    try:
        value = decode(data)
    except (ValueError, TypeError):
        value = {"error": f"status {status}"}
    if status == 410:
        raise Dismissed(str(value.get("error")))
    if status != 200:
        raise HarnessError(f"the driver refused a message: {value.get('error')}")
    return value
