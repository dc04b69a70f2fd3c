"""Clients that send or read too slowly lose their connection, and the server goes on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentbench.view import stalled
from agentbench.view.server import MAX_CONNECTIONS
from tests.view.conftest import Served, serve

pytestmark = pytest.mark.component

HEADER = b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that ends stalled connections after half a second."""
    folder = tmp_path_factory.mktemp("stalled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stalled, "STALLED_SEC", 0.5)
        yield from serve(folder, tasks_dir=folder)


def connect(served: Served) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", served.client.base_url.port or 0), timeout=60)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return connection


def sign_in(served: Served) -> str:
    """Return the header lines of a request that the server accepts."""
    cookies = "; ".join(f"{name}={value}" for name, value in served.client.cookies.items())
    return f"Host: {served.base.removeprefix('http://')}\r\nOrigin: {served.base}\r\nCookie: {cookies}"


def ended(connection: socket.socket) -> bool:
    """Wait for the end of a connection; fail with a timeout if the server keeps it open."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def test_header_sent_byte_by_byte_is_not_awaited(impatient: Served) -> None:
    with connect(impatient) as connection:

        def drip() -> None:
            try:
                for byte in HEADER * 100:
                    connection.send(bytes([byte]))
                    time.sleep(0.05)
            except OSError:
                pass

        sender = threading.Thread(target=drip)
        sender.start()
        assert ended(connection)
        sender.join()
    assert impatient.get("/api/runs") == {"runs": [], "pending": 0, "pilots": 0}


def test_silent_connection_and_incomplete_body_are_ended(impatient: Served) -> None:
    lines = [
        "POST /api/query HTTP/1.1",
        sign_in(impatient),
        "Content-Type: application/json",
        "Content-Length: 9",
        "",
        "{",
    ]
    with connect(impatient) as silent, connect(impatient) as incomplete:
        incomplete.sendall("\r\n".join(lines).encode())
        assert ended(silent)
        assert ended(incomplete)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_client_that_reads_nothing_is_ended(impatient: Served) -> None:
    connections = impatient.server._server.server_state.connections

    def unread() -> bool:
        return any(isinstance(one, H11Protocol) and one.flow.write_paused for one in set(connections))

    request = f"GET / HTTP/1.1\r\n{sign_in(impatient)}\r\n\r\n".encode()
    with connect(impatient) as connection:
        connection.sendall(request * 60)  # 10 MB of answers: more than the buffers of both sides
        wait_until(unread)
        wait_until(lambda: not unread())
    assert impatient.get("/api/runs")["runs"] == []


def test_many_silent_connections_do_not_block_others(impatient: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled, "STALLED_SEC", 600)
    monkeypatch.setattr(stalled, "CROWDED_SEC", 0.5)
    with ExitStack() as silent:
        for _ in range(MAX_CONNECTIONS + 20):
            silent.enter_context(connect(impatient))
        wait_until(lambda: impatient.client.get("/api/runs").status_code == 503)
        wait_until(lambda: impatient.client.get("/api/runs").status_code == 200)
