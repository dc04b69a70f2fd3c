"""The proxy of one attempt: a unix socket in a folder that the sandbox mounts, and a forwarder on loopback inside.

with Proxy(folder, AllowList.of(…), Recorder(log, blobs, limits), limits) as proxy:
spec = proxy.forward.add_to(spec, environment())
…
proxy.forward.start(sandbox, wall_sec)
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.contract.network_allow import Destination
from agentbench.core.errors import HarnessError
from agentbench.run.proxy.allow_list import AllowList, Refused
from agentbench.run.proxy.forwarding import Passage, Unreachable
from agentbench.run.proxy.recorder import Exchange, ProxyLimits, Recorder
from agentbench.run.proxy.requests import BadRequest, Client, Head
from agentbench.sandbox.socket_forward import SocketForward

PORT = 8378
"""Every sandbox has a loopback of its own, so that one number serves all."""

_JOIN_SEC = 5.0
_ERRORS = {"malformed": 400, "not_listed": 403, "not_public": 403, "limit": 429}


@dataclasses.dataclass(slots=True)
class _Way:
    """Where a request goes, as far as that is known."""

    there: Destination | None = None
    path: str = ""
    addresses: tuple[str, ...] = ()
    trouble: str = ""


class Proxy:
    """See the module. `folder` is made, and nobody else's."""

    def __init__(self, folder: Path, allow: AllowList, recorder: Recorder, limits: ProxyLimits | None = None) -> None:
        self.forward = SocketForward(folder, "proxy", PORT)
        self._allow = allow
        self._recorder = recorder
        self._limits = limits or ProxyLimits()
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, list[socket.socket]] = {}
        self._closed = False
        self._listener = self.forward.listen(self._limits.connections)
        self._thread = threading.Thread(target=self._accept, name="proxy-accept", daemon=True)
        self._thread.start()

    # --- life ---------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End every connection, write the sum. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            left = dict(self._open)
            for sockets in left.values():
                for one in sockets:
                    _end(one)
        _end(self._listener)
        self._listener.close()
        self._thread.join(_JOIN_SEC)
        deadline = time.monotonic() + _JOIN_SEC
        for thread in left:
            thread.join(max(deadline - time.monotonic(), 0.01))
        self.forward.remove()
        self._recorder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # --- serving ------------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.05)  # out of descriptors, say: others give theirs back
                continue
            thread = threading.Thread(target=self._serve, args=(client,), name="proxy-client", daemon=True)
            with self._lock:
                full = self._closed or len(self._open) >= self._limits.connections
                if not full:
                    self._open[thread] = [client]
            try:
                if not full:
                    thread.start()
                    continue
            except RuntimeError:  # no thread to be had: this one is turned away, the next may be served
                with self._lock:
                    self._open.pop(thread, None)
            self._recorder.turned_away()
            client.close()

    def _serve(self, sock: socket.socket) -> None:
        client = Client(sock, self._limits.idle_sec)
        try:
            self._one(client)
        except (HarnessError, OSError):
            pass  # It went away, or nothing may be sent because nothing can be written down.
        finally:
            with self._lock:
                sockets = self._open.pop(threading.current_thread(), [])
            for one in (sock, *sockets):
                one.close()

    def _one(self, client: Client) -> None:
        """One request of a connection. There is no second: the answer says that the connection ends."""
        try:
            head = client.read_head(self._limits.head_sec)
        except BadRequest as bad:
            self._malformed(bad)
            _refuse(client, bad.status, bad.why)
            return
        if head is None:
            return
        way = _Way()
        refused: Refused | None = None
        try:
            way.there, way.path = head.destination()
            self._allow.listed(way.there)
            # A question for a name goes out, too: none beyond what the attempt may ask, where it would not be written down.
            self._recorder.admit()
            way.addresses = self._allow.addresses(way.there)
        except BadRequest as bad:
            refused = Refused("malformed", bad.why)
        except Refused as no:
            refused = no
        except (OSError, UnicodeError) as error:
            way.trouble = str(getattr(error, "strerror", None) or error)
        try:
            exchange = self._recorder.request(head, way.there, refused)
        except Refused as no:
            _refuse(client, _ERRORS[no.kind], no.why)
            return
        try:
            self._pass_on(client, head, way, exchange)
        finally:
            self._recorder.answered(exchange)

    def _malformed(self, bad: BadRequest) -> None:
        """What is no request is written down all the same."""
        with contextlib.suppress(Refused):
            self._recorder.request(Head("?", "", 1, ()), None, Refused("malformed", bad.why))

    def _pass_on(self, client: Client, head: Head, way: _Way, exchange: Exchange) -> None:
        passage = Passage(client, self._recorder, self._limits)
        assert way.there is not None  # noqa: S101 - what has no destination was refused
        server: socket.socket | None = None
        try:
            server = self._kept(passage.connect(way.there, way.addresses, way.trouble, exchange))
            if head.tunnel:
                passage.tunnel(server, exchange)
            else:
                passage.plain(server, head, head.passed_on(way.there, way.path), exchange)
        except Unreachable as error:
            exchange.error = str(error)
            _refuse(client, 502, str(error))
        except (Refused, BadRequest) as error:
            exchange.error = error.why
        except OSError as error:
            over = "the agent's work was over" if self._closed else ""
            exchange.error = over or str(error.strerror or error)
        finally:
            if server is not None:
                server.close()

    def _kept(self, server: socket.socket) -> socket.socket:
        """Remember a connection, so that `close` ends it too."""
        with self._lock:
            if self._closed:
                server.close()
                msg = "the agent's work was over"
                raise OSError(msg)
            self._open[threading.current_thread()].append(server)
        return server


def environment() -> Mapping[str, str]:
    """What clients find their way by."""
    proxy = f"http://127.0.0.1:{PORT}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
    own = "127.0.0.1,localhost,::1"
    return {**dict.fromkeys(names, proxy), "NO_PROXY": own, "no_proxy": own}


def _refuse(client: Client, status: int, why: str) -> None:
    body = f"agentbench proxy: {why}\n".encode()
    lines = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        client.socket.settimeout(5)
        client.socket.sendall(lines.encode("ascii") + body)
        # What the client still sends must be read, or the system drops the answer on its way.
        client.socket.shutdown(socket.SHUT_WR)
        _drain(client.socket)


def _drain(sock: socket.socket) -> None:
    deadline = time.monotonic() + 2
    left = 1 << 20
    while left > 0 and time.monotonic() < deadline:
        sock.settimeout(max(deadline - time.monotonic(), 0.01))
        data = sock.recv(65536)
        if not data:
            return
        left -= len(data)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
