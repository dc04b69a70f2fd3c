"""Measure the latency the gateway adds, the time to a stream's first byte, and the memory of waiting gateways."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from agentbench.models.factory import ModelFactory, ModelParams
from agentbench.models.gateway.server import Gateway
from agentbench.models.keys import Keys, preset_key_names
from agentbench.models.ledger import Caps
from agentbench.models.metered_model import LogSink
from agentbench.trace.blobs import BlobStore
from agentbench.trace.log import EventLog
from agentbench.trace.redaction import Redactor
from bench.report import Report, argument_parser, open_report

REQUESTS = 300
WAITING = 100
HOLD_SEC = 6.0
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
TEXT = "A sentence of an ordinary answer. " * 12
CONVERSATION = [{"role": "user", "content": "def f(x):\n    return x\n" * 400}]


class Model(BaseHTTPRequestHandler):
    """An upstream in its own process. It answers at once, or after the seconds given by `seed`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        time.sleep(body.get("seed", 0))
        if body.get("stream"):
            self._stream()
            return
        choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
        data = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": USAGE}).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        self.wfile.write(head.encode() + data)

    def _stream(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        events = [
            {"id": "x", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
        ] * 5
        events.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        for event in [*(json.dumps(event) for event in events), "[DONE]"]:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            # Far apart, so that buffering would show.
            time.sleep(0.003)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None: ...


class Upstream(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None: ...


def upstream(pipe: Connection) -> None:
    server = Upstream(("127.0.0.1", 0), Model)
    pipe.send(server.server_address[1])
    server.serve_forever()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("gateway", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(client: http.client.HTTPConnection, *, wait: float = 0, stream: bool = False) -> tuple[float, float]:
    """Send one request. Returns the seconds until the first byte of the body and until its end."""
    body: dict[str, Any] = {"model": "m", "messages": CONVERSATION, "seed": wait, "max_tokens": 100, "stream": stream}
    begin = time.perf_counter()
    client.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    response = client.getresponse()
    response.read(1)
    first = time.perf_counter() - begin
    response.read()
    if response.status != 200:
        raise SystemExit(f"the gateway answered {response.status}")
    return first, time.perf_counter() - begin


def waiting_clients(paths: list[str], pipe: Connection) -> None:
    """Clients in their own process, in place of sandboxes."""
    times: list[float] = []

    def send(path: str) -> None:
        times.append(ask(UnixConnection(path), wait=HOLD_SEC)[1])

    threads = [threading.Thread(target=send, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send(times)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096 / 1e6


class Harness:
    """Gateways as a run creates them: each has a log and blobs, all share one ledger and one transport."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.factory = ModelFactory(Keys({"AB_MODEL_API_KEY": "k" * 40}))
        self.choice = self.factory.choose(f"m@http://127.0.0.1:{port}/v1")
        self.redact = Redactor(self.factory.keys.values(preset_key_names()))
        self.gateways: list[Gateway] = []

    def open(self) -> str:
        attempt = self.folder / f"a{len(self.gateways)}"
        attempt.mkdir()
        log = EventLog.create(attempt / "events.jsonl", redact=self.redact)
        sink = LogSink(log, BlobStore(attempt / "blobs", redact=self.redact))
        metered_model = self.factory.metered_model(
            self.choice, ModelParams(self.factory.ledger.attempt("t", Caps.of(usd=1000)), sink)
        )
        self.gateways.append(Gateway(attempt / "gateway", metered_model))
        return str(self.gateways[-1].forward.socket)


def compare(
    report: Report,
    name: str,
    direct: Callable[[], tuple[float, float]],
    through: Callable[[], tuple[float, float]],
    part: int,
) -> None:
    """Alternate both, so that other load on the machine affects them equally."""
    pairs = [(direct()[part] * 1000, through()[part] * 1000) for _ in range(REQUESTS)]
    plain, longer = [first for first, _ in pairs], [second for _, second in pairs]
    report.times(f"{name}, direct", plain)
    report.times(f"{name}, through the gateway", longer)
    report.value("  added (medians)", statistics.median(longer) - statistics.median(plain), "ms", most=3)


def waiting(report: Report, harness: Harness, paths: list[str]) -> None:
    """Measure gateways alone; bench.waiting measures whole attempts."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    clients = context.Process(target=waiting_clients, args=(paths, there))
    clients.start()
    time.sleep(HOLD_SEC - 2)
    threads, held = threading.active_count(), resident_mb()
    times = here.recv()
    clients.join()
    report.value(f"{WAITING} gateways waiting, resident in all", held, "MB", most=250)
    report.value("  threads", threads, "threads")
    report.value("  answered", len(times), "requests", least=WAITING)
    report.value("  longest after the model's own time", (max(times) - HOLD_SEC) * 1e3, "ms")
    for gateway in harness.gateways:
        gateway.close()
    harness.factory.close()


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    model = context.Process(target=upstream, args=(there,), daemon=True)
    model.start()
    port = here.recv()
    with open_report("gateway", arguments.json) as report, tempfile.TemporaryDirectory() as folder:
        report.note(
            f"{REQUESTS} requests of {len(json.dumps(CONVERSATION)) / 1000:.0f} kB, direct and through by turns"
        )
        report.value("before any gateway", resident_mb(), "MB")
        harness = Harness(Path(folder), port)
        paths = [harness.open() for _ in range(WAITING)]
        straight = http.client.HTTPConnection("127.0.0.1", port)
        gated = UnixConnection(paths[0])
        for _ in range(20):
            ask(straight)
            ask(gated)
        compare(report, "whole answer", lambda: ask(straight), lambda: ask(gated), 1)
        first = (lambda: ask(straight, stream=True), lambda: ask(gated, stream=True))
        compare(report, "stream, first byte", *first, 0)
        waiting(report, harness, paths)
    model.kill()


if __name__ == "__main__":
    main()
