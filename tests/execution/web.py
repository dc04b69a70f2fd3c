"""A web server on loopback and a proxy, for tests of the recording proxy."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from agentbench.contract.network_allow import parse_entry
from agentbench.execution.proxy.allow_list import AllowList, Resolver
from agentbench.execution.proxy.recorder import ProxyLimits, Recorder
from agentbench.execution.proxy.server import Proxy
from agentbench.trace.blobs import BlobStore
from agentbench.trace.events import NetworkRequest, NetworkResponse, NetworkUsed
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.redaction import Redactor


@dataclass
class Site:
    """A small web server that keeps its requests."""

    port: int
    pages: dict[str, bytes]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def site(pages: dict[str, bytes] | None = None, host: str = "127.0.0.1") -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = self.headers.get("content-length")
            body = self.rfile.read(int(length)) if length else self._chunked()
            web.requests.append((self.command, self.path, dict(self.headers.items()), body))
            page = web.pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page or b"")

        do_GET = do_POST = do_HEAD = _serve  # noqa: N815 - named by the library

        def _chunked(self) -> bytes:
            body = b""
            if self.headers.get("transfer-encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            return body

        def log_message(self, *_words: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    web = Site(server.server_address[1], pages if pages is not None else {"/": b"hello"})
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Proxied:
    """A proxy in a folder, used like the forwarder inside a sandbox does."""

    folder: Path
    proxy: Proxy

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(20)
        sock.connect(str(self.proxy.forward.socket))
        return sock

    def ask(self, data: bytes) -> bytes:
        """Send data, and read until the connection closes."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock)

    def get(self, url: str, more: str = "") -> bytes:
        return self.ask(f"GET {url} HTTP/1.1\r\nHost: other.example\r\n{more}\r\n".encode())

    @property
    def payloads(self) -> list[object]:
        return [event.payload for event in read_events(self.folder / "events.jsonl")]

    @property
    def requests(self) -> list[NetworkRequest]:
        return [payload for payload in self.payloads if isinstance(payload, NetworkRequest)]

    @property
    def responses(self) -> list[NetworkResponse]:
        return [payload for payload in self.payloads if isinstance(payload, NetworkResponse)]

    @property
    def used(self) -> NetworkUsed:
        (used,) = [payload for payload in self.payloads if isinstance(payload, NetworkUsed)]
        return used


@contextmanager
def proxied(
    folder: Path,
    allow: Sequence[str],
    *,
    limits: ProxyLimits | None = None,
    resolve: Resolver | None = None,
    redact: Redactor | None = None,
) -> Iterator[Proxied]:
    limits = limits or ProxyLimits(head_sec=60, idle_sec=60, connect_sec=60)
    log = EventLog.create(folder / "events.jsonl", redact=redact)
    listed = AllowList([parse_entry(entry) for entry in allow], resolve)
    recorder = Recorder(log, BlobStore(folder / "blobs", redact=redact), limits)
    with log, Proxy(folder / "p", listed, recorder, limits) as proxy:
        yield Proxied(folder, proxy)


def read_all(sock: socket.socket) -> bytes:
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data
