"""A model service on loopback: real HTTP, with every way in which a service can fail."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        behaviours = self.server.behaviours
        behaviour = behaviours.pop(0) if len(behaviours) > 1 else behaviours[0]
        with contextlib.suppress(ConnectionError, TimeoutError):
            behaviour(self, body)

    def whole(self, data: bytes, *, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def drop(self) -> None:
        """Close the connection as a crash would."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *behaviours: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviours = list(behaviours)
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.release = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: object, client_address: object) -> None: ...


def answer_body(text: str = "hello", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 10,
            "total_tokens": 110,
            "prompt_tokens_details": {"cached_tokens": 40},
        },
    }


def stream_chunks(text: str = "hello") -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": ""},
        *({"content": letter} for letter in text),
    ]
    chunks = [head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append(head | {"choices": [], "usage": answer_body()["usage"]})
    return [*(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n"]


# --- behaviours ------------------------------------------------------------------------------------------------------


def good(handler: Handler, body: dict[str, Any]) -> None:
    if body.get("stream"):
        handler.begin_stream()
        for chunk in stream_chunks():
            handler.chunk(chunk)
        handler.chunk(b"")
    else:
        handler.whole(json.dumps(answer_body()).encode())


def responds(value: dict[str, Any]) -> Behaviour:
    return lambda handler, _: handler.whole(json.dumps(value).encode())


def status(code: int, message: str = "trouble", **headers: str) -> Behaviour:
    body = json.dumps({"error": {"message": message, "type": "t", "code": None}}).encode()
    return lambda handler, _: handler.whole(body, status=code, **headers)


def raw(data: bytes, kind: str = "application/json") -> Behaviour:
    return lambda handler, _: handler.whole(data, kind=kind)


def hang(handler: Handler, _: dict[str, Any]) -> None:
    handler.server.release.wait(30)


def until_gone(noticed: threading.Event, arrived: threading.Event | None = None) -> Behaviour:
    """Send nothing, and notice when the client disconnects. `arrived` is set when its request is here."""

    def behave(handler: Handler, _: dict[str, Any]) -> None:
        if arrived is not None:
            arrived.set()
        handler.connection.settimeout(60)
        if handler.connection.recv(1) == b"":
            noticed.set()
        handler.close_connection = True

    return behave


def slow(seconds: float) -> Behaviour:
    def behave(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(seconds)
        good(handler, body)

    return behave


def closes_at_once(handler: Handler, _: dict[str, Any]) -> None:
    handler.drop()


def closes_in_mid_stream(handler: Handler, _: dict[str, Any]) -> None:
    handler.begin_stream()
    for chunk in stream_chunks()[:4]:
        handler.chunk(chunk)
    handler.drop()


def ends_stream_early(handler: Handler, _: dict[str, Any]) -> None:
    handler.begin_stream()
    for chunk in stream_chunks()[:4]:
        handler.chunk(chunk)
    handler.chunk(b"")


def bad_stream(data: bytes) -> Behaviour:
    def behave(handler: Handler, _: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.chunk(stream_chunks()[0])
        handler.chunk(data)
        handler.chunk(b"")

    return behave


def shorter_than_promised(handler: Handler, _: dict[str, Any]) -> None:
    data = json.dumps(answer_body()).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2])
    handler.drop()


def fifty_megabytes(handler: Handler, _: dict[str, Any]) -> None:
    """Send no content-length, so that the reader must count."""
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    for _n in range(50):
        handler.chunk(b" " * (1 << 20))
    handler.chunk(b"{}")
    handler.chunk(b"")
