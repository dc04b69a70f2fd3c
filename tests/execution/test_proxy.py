"""The recording proxy on its own: what it records, forwards and refuses, and its limits."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.contract.network_allow import Destination, is_public, parse_authority, parse_entry
from agentbench.core.errors import InputError
from agentbench.execution.proxy.allow_list import AllowList, Refused
from agentbench.execution.proxy.recorder import ProxyLimits
from agentbench.sandbox.socket_forward import remove_stale_sockets
from agentbench.trace.redaction import Redactor
from tests.execution.web import Proxied, proxied, read_all, site

pytestmark = pytest.mark.component

KEY = "an-index-key-of-somebody"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.req("R-12")
def test_plain_request_is_recorded_in_full(tmp_path: Path) -> None:
    page = b"<a href='six-1.0.tar.gz'>six</a>" * 1000
    with site({"/simple/six/?v=1": page}) as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"]) as proxy:
        answer = proxy.get(f"http://127.0.0.1:{web.port}/simple/six/?v=1", "Accept: text/html\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
    assert answer.endswith(b"\r\n\r\n" + page)
    (request,), (response,) = proxy.requests, proxy.responses
    assert (request.way, request.method, request.host, request.port) == ("http", "GET", "127.0.0.1", web.port)
    assert request.target.endswith("/simple/six/?v=1")
    assert "Accept: text/html" in request.head.text
    assert not request.refused
    assert (response.request_id, response.status, response.address) == (request.request_id, 200, "127.0.0.1")
    assert (response.received_bytes, response.received_sha256) == (len(page), sha256(page))
    assert response.body.blob is not None
    assert (tmp_path / "blobs" / response.body.blob).read_bytes() == page
    used = proxy.used
    assert (used.requests, used.refused, used.received_bytes) == (1, 0, len(page))


@pytest.mark.req("R-12")
@pytest.mark.parametrize("chunked", [False, True])
def test_sent_body_arrives_and_is_recorded_without_secrets(tmp_path: Path, *, chunked: bool) -> None:
    body = f"token={KEY}&name=six".encode()
    framing, sent = f"Content-Length: {len(body)}\r\n", body
    if chunked:
        framing, sent = (
            "Transfer-Encoding: chunked\r\n",
            b"%x;ext=1\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(body), body),
        )
    redact = Redactor({"INDEX_KEY": KEY})
    with site() as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"], redact=redact) as proxy:
        head = f"POST http://127.0.0.1:{web.port}/ HTTP/1.1\r\nAuthorization: Basic c2VjcmV0\r\nX-Own: {KEY}\r\n{framing}\r\n"
        assert b" 200 " in proxy.ask(head.encode() + sent)
        ((method, _, headers, arrived),) = web.requests
    assert (method, arrived) == ("POST", body)
    assert headers["Authorization"] == "Basic c2VjcmV0"
    (response,) = proxy.responses
    assert (response.sent_bytes, response.sent_sha256) == (len(body), sha256(body))
    assert "name=six" in response.request_body.text
    written = (tmp_path / "events.jsonl").read_text() + "".join(
        blob.read_text() for blob in (tmp_path / "blobs").glob("*")
    )
    assert KEY not in written
    assert "c2VjcmV0" not in written


@pytest.mark.req("R-12")
def test_host_header_is_replaced_and_hop_by_hop_headers_dropped(tmp_path: Path) -> None:
    with site() as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"]) as proxy:
        proxy.get(
            f"http://127.0.0.1:{web.port}",
            "Proxy-Authorization: x\r\nConnection: x-mine, close\r\nX-Mine: 1\r\nUpgrade: h2c\r\nX-Other: 2\r\n",
        )
        ((_, path, headers, _),) = web.requests
    assert path == "/"
    assert headers == {"Host": f"127.0.0.1:{web.port}", "Connection": "close", "X-Other": "2"}


@pytest.mark.req("R-12")
def test_tunnel_passes_bytes_and_records_counts_and_digests(tmp_path: Path) -> None:
    big = b"\x00\xff" * 400_000
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def echo() -> None:
            sock, _ = server.accept()
            with sock:
                while data := sock.recv(65536):
                    sock.sendall(data)
                sock.sendall(b"bye")

        thread = threading.Thread(target=echo)
        thread.start()
        with proxied(tmp_path, [f"127.0.0.1:{port}"]) as proxy, proxy.connect() as client:
            # What a client sends before the response belongs to the tunnel.
            client.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\nhello".encode())
            sender = threading.Thread(target=_send, args=(client, big))
            sender.start()
            answer = read_all(client)
            sender.join()
        thread.join()
    head, _, passed = answer.partition(b"\r\n\r\n")
    assert head == b"HTTP/1.1 200 Connection established"
    assert passed == b"hello" + big + b"bye"
    (request,), (response,) = proxy.requests, proxy.responses
    assert (request.way, request.host, request.port) == ("tunnel", "127.0.0.1", port)
    assert (response.sent_bytes, response.sent_sha256) == (len(big) + 5, sha256(b"hello" + big))
    assert (response.received_bytes, response.received_sha256) == (len(passed), sha256(passed))
    assert response.status is None
    assert not response.error


def _send(client: socket.socket, data: bytes) -> None:
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)


REFUSED = {
    "CONNECT 169.254.169.254:80": "not_public",
    "CONNECT 127.0.0.1:8377": "not_public",
    "CONNECT localhost:8377": "not_public",
    "CONNECT [::1]:8377": "not_public",
    "CONNECT [::ffff:169.254.169.254]:80": "not_public",
    "CONNECT 10.0.0.1:443": "not_public",
    "CONNECT evil.example:443": "not_listed",
    "CONNECT listed.example:22": "not_listed",
    "CONNECT listed.example.evil.example:443": "not_listed",
    "CONNECT listed.example": "malformed",
    "CONNECT listed.example:443@evil.example:443": "malformed",
    "CONNECT 127.1:443": "malformed",
    "CONNECT 0x7f000001:443": "malformed",
    "CONNECT 2130706433:443": "malformed",
    "CONNECT listed.example:99999": "malformed",
    "GET http://169.254.169.254/latest/meta-data/": "not_public",
    "GET http://evil.example/": "not_listed",
    "GET http://listed.example@evil.example/": "malformed",
    "GET http://listed.example:80@evil.example/": "malformed",
    "GET http://listed.example#@evil.example/": "malformed",
    "GET http://listed.example\\@evil.example/": "malformed",
    "GET http://listed.example%2eevil.example/": "malformed",
    "GET http:///": "malformed",
    "GET //listed.example/": "malformed",
    "GET /": "malformed",
    "GET https://listed.example/": "malformed",
    "GET ftp://listed.example/": "malformed",
    "get http://listed.example/": "malformed",
    "GET  http://listed.example/": "malformed",
}


@pytest.mark.req("R-12")
def test_unlisted_destinations_are_refused_and_recorded(tmp_path: Path) -> None:
    def refuse_to_resolve(host: str, port: int) -> list[str]:
        raise AssertionError((host, port))

    with proxied(tmp_path, ["listed.example"], resolve=refuse_to_resolve) as proxy:
        answers = {line: proxy.ask(f"{line} HTTP/1.1\r\nHost: listed.example\r\n\r\n".encode()) for line in REFUSED}
    status = {"not_public": b"403", "not_listed": b"403", "malformed": b"400"}
    wrong = {line: answers[line][:60] for line, kind in REFUSED.items() if answers[line].split(b" ")[1] != status[kind]}
    assert not wrong
    assert [request.refused for request in proxy.requests] == list(REFUSED.values())
    assert not proxy.responses
    assert proxy.used.refused == len(REFUSED)


SMUGGLED = [
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: 5 5\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding : chunked\r\n",
    "X: 1\r\n folded\r\n",
    "X: 1\nContent-Length: 5\r\n",
    "X: \x00\r\n",
    "X:" + " " * 30_000 + "\x00\r\n",
    "Host: one\r\nHost: two\r\n",
    "X: " + "y" * 40_000 + "\r\n",
    "".join(f"X-{n}: 1\r\n" for n in range(101)),
]


@pytest.mark.req("R-12")
@pytest.mark.parametrize("headers", SMUGGLED, ids=lambda text: repr(text[:30]))
def test_ambiguous_and_oversized_requests_are_refused(tmp_path: Path, headers: str) -> None:
    with site() as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"]) as proxy:
        answer = proxy.ask(f"POST http://127.0.0.1:{web.port}/ HTTP/1.1\r\n{headers}\r\nhello".encode())
        assert answer.split(b" ")[1] in {b"400", b"431"}
        assert not web.requests
    assert [request.refused for request in proxy.requests] == ["malformed"]


@pytest.mark.req("R-12")
def test_blanks_in_a_header_are_parsed_in_linear_time(tmp_path: Path) -> None:
    # A pattern with quadratic time would block all threads of the harness for minutes.
    with site() as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"]) as proxy:
        more = "".join(f"X-{n}: \t a{' ' * 7_000}b \t\r\n" for n in range(4))
        assert b" 200 " in proxy.get(f"http://127.0.0.1:{web.port}/", more)
        ((_, _, headers, _),) = web.requests
    assert headers["X-3"] == f"a{' ' * 7_000}b"


@pytest.mark.req("R-12")
def test_second_request_on_a_connection_is_ignored(tmp_path: Path) -> None:
    with site({"/1": b"one", "/2": b"two"}) as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"]) as proxy:
        base = f"http://127.0.0.1:{web.port}"
        answer = proxy.ask(f"GET {base}/1 HTTP/1.1\r\n\r\nGET {base}/2 HTTP/1.1\r\n\r\n".encode())
        assert answer.endswith(b"one")
        assert [path for _, path, _, _ in web.requests] == ["/1"]


@pytest.mark.req("R-12")
def test_name_is_resolved_once_and_never_to_private_addresses(tmp_path: Path) -> None:
    looked_up: list[str] = []
    meanings = {
        "inside.example": ["127.0.0.1"],
        "mixed.example": ["93.184.216.34", "10.1.2.3"],
        "mapped.example": ["::ffff:192.168.1.1"],
        "carried.example": ["64:ff9b::7f00:1"],
        "compatible.example": ["::127.0.0.1"],
        "translated.example": ["::ffff:0:127.0.0.1"],
        "site.example": ["fec0::1"],
        "six.example": ["2002:7f00:1::1"],
        "many.example": ["224.0.0.1"],
    }

    def resolve(host: str, port: int) -> list[str]:
        assert port == 443
        looked_up.append(host)
        return meanings[host]

    with proxied(tmp_path, ["*.example"], resolve=resolve) as proxy:
        for host in meanings:
            assert b" 403 " in proxy.ask(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
    assert {request.refused for request in proxy.requests} == {"not_public"}
    assert looked_up == list(meanings)


@pytest.mark.req("R-12")
def test_unreachable_server_is_reported_and_recorded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    def nothing(_host: str, _port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with proxied(tmp_path, [f"127.0.0.1:{port}", "gone.example"], resolve=nothing) as proxy:
        assert b" 502 " in proxy.ask(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        assert b" 502 " in proxy.get("http://gone.example/")
    assert ["cannot reach" in response.error for response in proxy.responses] == [True, True]


@pytest.mark.req("R-12")
def test_slow_request_head_is_refused(tmp_path: Path) -> None:
    with proxied(tmp_path, ["listed.example"], limits=ProxyLimits(head_sec=0.3)) as proxy, proxy.connect() as sock:
        sock.sendall(b"GET http://listed.example/ HTTP/1.1\r\nX: ")
        assert b" 408 " in read_all(sock)
    assert [request.refused for request in proxy.requests] == ["malformed"]


@pytest.mark.req("R-12")
def test_excess_connections_and_requests_are_only_counted(tmp_path: Path) -> None:
    limits = ProxyLimits(connections=4, requests=3, head_sec=300)
    with proxied(tmp_path, ["listed.example"], limits=limits) as proxy:
        idle = [proxy.connect() for _ in range(4)]
        # Wait until all four are being served.
        for sock in idle[:2]:
            sock.sendall(b"GET /")
        assert not any(_connect_and_read(proxy) for _ in range(500))
        assert sum(thread.name == "proxy-client" for thread in threading.enumerate()) <= 4
        for sock in idle:
            sock.close()
        statuses = [_patient(proxy) for _ in range(5)]
    used = proxy.used
    assert used.turned_away >= 490
    assert len(proxy.requests) == used.requests == 3
    assert used.unrecorded >= 2
    assert statuses[-1] in {b"403", b"429"}


@pytest.mark.req("R-12")
def test_no_name_is_resolved_beyond_the_request_limit(tmp_path: Path) -> None:
    looked_up: list[str] = []

    def resolve(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    with proxied(tmp_path, ["*.example"], limits=ProxyLimits(requests=2), resolve=resolve) as proxy:
        statuses = [proxy.get(f"http://word{n}.example/").split(b" ")[1] for n in range(4)]
    assert statuses == [b"502", b"502", b"429", b"429"]
    assert looked_up == ["word0.example", "word1.example"]


@pytest.mark.req("R-12")
def test_connection_without_a_thread_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    refused: list[threading.Thread] = []

    def sometimes(thread: threading.Thread) -> None:
        if thread.name == "proxy-client" and not refused:
            refused.append(thread)
            raise RuntimeError
        start(thread)

    with proxied(tmp_path, ["listed.example"]) as proxy:
        monkeypatch.setattr(threading.Thread, "start", sometimes)
        assert _connect_and_read(proxy) == b""
        assert b" 403 " in proxy.get("http://other.example/")
    assert proxy.used.turned_away == 1


def _connect_and_read(proxy: Proxied) -> bytes:
    with proxy.connect() as sock:
        return read_all(sock)


def _patient(proxy: Proxied) -> bytes:
    """Retry until a connection is free."""
    while True:
        try:
            answer = proxy.get("http://other.example/")
        except BrokenPipeError:
            continue
        if answer:
            return answer.split(b" ")[1]


@pytest.mark.req("R-12")
def test_byte_limit_of_an_attempt_is_enforced(tmp_path: Path) -> None:
    limits = ProxyLimits(total_bytes=300_000)
    with site({"/": b"x" * 1_000_000}) as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"], limits=limits) as proxy:
        answer = proxy.get(f"http://127.0.0.1:{web.port}/")
        assert len(answer) < 500_000
        assert b" 429 " in proxy.get(f"http://127.0.0.1:{web.port}/")
    (response,) = proxy.responses
    assert response.error == "more than 300000 bytes in one attempt"
    assert [request.refused for request in proxy.requests] == ["", "limit"]


@pytest.mark.req("R-12")
def test_recorded_bodies_are_bounded_but_digests_complete(tmp_path: Path) -> None:
    page = b"y" * 50_000
    limits = ProxyLimits(kept_bytes=20_000, kept_in_total=50_000)
    with site({"/": page}) as web, proxied(tmp_path, [f"127.0.0.1:{web.port}"], limits=limits) as proxy:
        for _ in range(4):
            proxy.get(f"http://127.0.0.1:{web.port}/")
    assert {response.received_sha256 for response in proxy.responses} == {sha256(page)}
    stored = sum(blob.stat().st_size for blob in (tmp_path / "blobs").glob("*"))
    assert stored < 60_000


@pytest.mark.req("R-12")
def test_close_ends_connections_and_records_totals_last(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with proxied(tmp_path, [f"127.0.0.1:{port}"]) as proxy, proxy.connect() as client:
            client.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nabc".encode())
            assert b"established" in client.recv(1000)
            proxy.proxy.close()
            assert read_all(client) == b""
    (response,) = proxy.responses
    assert response.sent_bytes == 3
    assert proxy.payloads[-1] == proxy.used
    assert not (tmp_path / "p").exists()


def test_truncated_response_is_truncated_for_the_client(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def half() -> None:
            for head in (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"Content-Length: 10\r\n\r\nhello"):
                sock, _ = server.accept()
                with sock:
                    sock.recv(65536)
                    sock.sendall(b"HTTP/1.1 200 OK\r\n" + head)

        thread = threading.Thread(target=half)
        thread.start()
        with proxied(tmp_path, [f"127.0.0.1:{port}"]) as proxy:
            chunks, counted = (proxy.get(f"http://127.0.0.1:{port}/") for _ in range(2))
        thread.join()
    assert not chunks.endswith(b"0\r\n\r\n")
    assert b"Content-Length: 10" in counted
    assert counted.endswith(b"hello")
    assert all(response.error for response in proxy.responses)


@pytest.mark.parametrize(
    "text", ["", "*", "a b", "http://x", "x/y", "10.0.0.1", "::1", "[::1]", "*.127.0.0.1:80", "x:0"]
)
def test_invalid_allow_list_entry_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"network_allow\[1\]"):
        AllowList.of(["good.example", text])


@given(st.text(max_size=60))
def test_only_the_exact_name_matches_a_listed_host(text: str) -> None:
    try:
        destination = parse_authority(text, 443)
        AllowList([parse_entry("listed.example")], lambda _host, _port: ["93.184.216.34"]).addresses(destination)
    except (ValueError, Refused):
        return
    assert text.lower().removesuffix(":443").removesuffix(":80").removesuffix(".") == "listed.example"


@given(st.ip_addresses())
def test_private_address_is_reached_only_if_listed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    allow = AllowList([parse_entry("*.example")], lambda _host, _port: [str(address)])
    with pytest.raises(Refused):
        allow.addresses(Destination(str(address), 443))
    try:
        addresses = allow.addresses(Destination("any.example", 443))
    except Refused:
        return
    assert is_public(ipaddress.ip_address(addresses[0]))
    assert ipaddress.ip_address(addresses[0]).is_global


def test_only_stale_sockets_are_removed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    dead = tmp_path / "sockets" / "dead" / "mount"
    dead.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(dead / "proxy.sock"))
    assert remove_stale_sockets(tmp_path / "sockets") == 0  # it may not be listening yet
    os.utime(dead / "proxy.sock", (0, 0))
    (tmp_path / "sockets" / "begun" / "mount").mkdir(parents=True)
    with proxied(tmp_path / "log", ["listed.example"]) as proxy:
        proxy.proxy.forward.folder.rename(tmp_path / "sockets" / "alive")
        os.utime(tmp_path / "sockets" / "alive" / "mount" / "proxy.sock", (0, 0))
        assert remove_stale_sockets(tmp_path / "sockets") == 1
        assert sorted(folder.name for folder in (tmp_path / "sockets").iterdir()) == ["alive", "begun"]
    assert remove_stale_sockets(tmp_path / "nothing") == 0
