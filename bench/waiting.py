"""A hundred attempts that all wait for a slow model: the memory of the harness, and whether each gets its answer.

    python -m bench.waiting [--sandbox bwrap|docker] [--attempts N]

The baseline agent of ours, one worker for each attempt, each with a sandbox. The model is a server of the bench: it holds every
request until all attempts have asked, then answers with the patch. Memory is the harness's own (its process and the one that
spawns sandboxes); that of the sandboxes is in bench.crowd.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any

from bench.crowd import parents, proportional_mb
from bench.measuring import Report, parser, reporting, usable
from bench.trivial import AB, PATCH, Memory, Ran, suite

ATTEMPTS = 100
WANTED_MB = 250
HINT = 'hints: {test_command: "test -f answer.txt"}\n'
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
PATIENCE_SEC = 180


@dataclass
class Slow:
    """A model that answers when it is told to, in a process of its own."""

    port: int
    process: ForkProcess
    asked: Any
    answer: Any

    def wait_for(self, count: int) -> int:
        """How many requests are held, at last that many."""
        limit = time.monotonic() + PATIENCE_SEC
        while self.asked.value < count and time.monotonic() < limit:
            time.sleep(0.1)
        return int(self.asked.value)


def slow_model() -> Slow:
    context: ForkContext = multiprocessing.get_context("fork")
    asked, answer, port = context.Value("i", 0), context.Event(), context.Value("i", 0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with asked.get_lock():
                asked.value += 1
            answer.wait(PATIENCE_SEC)
            message = {"role": "assistant", "content": f"Here it is:\n\n```diff\n{PATCH}```\n"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            data = json.dumps({"id": "x", "model": "m", "choices": [choice], "usage": USAGE}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    def serve() -> None:
        server = Server(("127.0.0.1", 0), Handler)
        port.value = server.server_address[1]
        server.serve_forever()

    process = context.Process(target=serve, daemon=True)
    process.start()
    while not port.value:
        time.sleep(0.01)
    return Slow(port.value, process, asked, answer)


def harness_mb(pid: int) -> tuple[float, float]:
    """Of the process itself, and of what it started that is no sandbox."""
    spawners = {child for child, parent in parents().items() if parent == pid}
    return proportional_mb({pid}), proportional_mb(spawners)


def measure(backend: str, count: int, report: Report) -> None:
    model = slow_model()
    try:
        with suite(name="waits", more=HINT) as folder:
            out = folder / "out"
            argv = [str(AB), "run", "--suite", "bench", "--tasks-dir", str(folder / "tasks"), "--agent", "llm_v0"]
            argv += ["--model", f"m@http://127.0.0.1:{model.port}/v1", "--sandbox", backend, "--out", str(out)]
            argv += ["--repeats", str(count), "--workers", str(count)]
            with (folder / "messages").open("wb") as messages:
                start = time.perf_counter()
                process = subprocess.Popen(argv, stdout=messages, stderr=messages, env=os.environ)
                memory, stop = Memory(), threading.Event()
                watcher = threading.Thread(target=memory.watch, args=(process.pid, stop))
                watcher.start()
                held = model.wait_for(count)
                took = time.perf_counter() - start
                time.sleep(1)
                own, spawner = harness_mb(process.pid)
                model.answer.set()
                released = time.perf_counter()
                code = process.wait(PATIENCE_SEC)
                rest = time.perf_counter() - released
                stop.set()
                watcher.join()
            if code != 0 or held != count:
                sys.exit(f"{held} of {count} asked, exit {code}\n" + (folder / "messages").read_text()[-2000:])
            Ran(took, memory, next(out.iterdir())).expect_passed(count)
    finally:
        model.process.kill()
    report.value(f"{count} attempts open and waiting after", took, "s", backend=backend)
    report.value("memory of the harness while they wait (PSS)", own + spawner, "MB", backend=backend, most=WANTED_MB)
    report.value("  of that the process that spawns", spawner, "MB", backend=backend)
    report.value("  peak of its process (RSS), to the end", memory.peak, "MB", backend=backend, most=WANTED_MB)
    report.value("all answered, graded and recorded after", rest, "s", backend=backend)


def main() -> None:
    options = parser(__doc__, sandbox=True)
    options.add_argument("--attempts", type=int, default=ATTEMPTS, help="at once (%(default)s)")
    asked = options.parse_args()
    with reporting("waiting", asked.json) as report:
        # One backend is enough by default: what waits is the same process.
        for backend in usable(asked.sandbox or ["bwrap"], report):
            measure(backend, asked.attempts, report)


if __name__ == "__main__":
    main()
