"""The request reader refuses everything that two readers could understand differently."""

from __future__ import annotations

import socket

import pytest

from agentbench.core.http1 import MAX_HEAD, BadRequest, RequestHead, RequestReader

pytestmark = [pytest.mark.req("T-05"), pytest.mark.component]


def read(data: bytes) -> tuple[RequestHead | None, bytes]:
    """Return the head and the body of the first request in `data`."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        reader = RequestReader(ours, idle_sec=5)
        head = reader.read_head(5)
        return head, b"" if head is None else b"".join(reader.body(head))


def test_plain_and_chunked_bodies_are_read() -> None:
    head, body = read(b"POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length:\t 3 \r\n\r\nabcdef")
    assert head is not None
    assert (head.method, head.target, head.minor, body) == ("POST", "/a?b", 1, b"abc")
    assert head.fields == (("Host", "h"), ("Content-Length", "3"))
    _, body = read(b"POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: x\r\n\r\n")
    assert body == b"abc"
    assert read(b"") == (None, b"")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\nHost: a\n",
        b"GET / HTTP/1.1\r\nX: a\r\n b\r\n",
        b"GET / HTTP/1.1\r\nX : a\r\n",
        b"GET / HTTP/1.1\r\nX: a\rb\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n",
        b"\r\nGET / HTTP/1.1\r\n",
        b"GET  / HTTP/1.1\r\n",
        b"GET /\tHTTP/1.1\r\n",
        b"get / HTTP/1.1\r\n",
        b"GET / HTTP/1.2\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: +3\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_ambiguous_heads_are_refused(head: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        read(head + b"\r\nabc")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "body", [b"", b"zz\r\n", b"-1\r\n", b"0x3\r\nabc\r\n", b"3\nabc\n", b"3\r\nabcd\r\n0\r\n\r\n", b"3"]
)
def test_malformed_chunks_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        read(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "data, status",
    [
        (b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_HEAD + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 101 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nX: y", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", 400),
    ],
)
def test_oversized_and_unfinished_requests_are_refused(data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as refused:
        read(data)
    assert refused.value.status == status


def test_slow_head_is_refused_and_silence_times_out() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        with pytest.raises(TimeoutError):
            RequestReader(ours, idle_sec=5).read_head(0.05)
        theirs.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises(BadRequest) as refused:
            RequestReader(ours, idle_sec=5).read_head(0.05)
        assert refused.value.status == 408


def test_bytes_after_the_head_are_kept_for_a_tunnel() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"CONNECT a:1 HTTP/1.1\r\n\r\nhello")
        reader = RequestReader(ours, idle_sec=5)
        assert reader.read_head(5) is not None
        assert reader.rest() == b"hello"
