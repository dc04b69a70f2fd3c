"""Run a hundred attempts that all wait for a slow model; measure the harness's memory and check that all are answered.

    python -m bench.waiting [--sandbox bwrap|docker] [--attempts N]

Uses the built-in agent with one worker and one sandbox per attempt. The model is a server in this bench that holds every
request until all attempts have sent one, then answers with the patch. Memory is that of the harness process and its sandbox
spawner; bench.crowd measures the sandboxes.
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

from bench.crowd import parent_pids, proportional_mb
from bench.report import Report, argument_parser, available_backends, open_report
from bench.trivial import AB, PATCH, AbRun, Memory, suite

ATTEMPTS = 100
WANTED_MB = 250
HINT = 'hints: {test_command: "test -f answer.txt"}\n'
USAGE = {"prompt_tokens": 900, "completion_tokens": 60, "total_tokens": 960}
TIMEOUT_SEC = 180


@dataclass
class SlowModel:
    """A model server in its own process that holds requests until `answer` is set."""

    port: int
    process: ForkProcess
    requests: Any
    answer: Any

    def wait_for(self, count: int) -> int:
        """Wait for this many requests and return the number held."""
        limit = time.monotonic() + TIMEOUT_SEC
        while self.requests.value < count and time.monotonic() < limit:
            time.sleep(0.1)
        return int(self.requests.value)


def slow_model() -> SlowModel:
    context: ForkContext = multiprocessing.get_context("fork")
    requests, answer, port = context.Value("i", 0), context.Event(), context.Value("i", 0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with requests.get_lock():
                requests.value += 1
            answer.wait(TIMEOUT_SEC)
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
    return SlowModel(port.value, process, requests, answer)


def harness_mb(pid: int) -> tuple[float, float]:
    """Return the memory of the process itself and of its sandbox spawner."""
    spawners = {child for child, parent in parent_pids().items() if parent == pid}
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
                code = process.wait(TIMEOUT_SEC)
                rest = time.perf_counter() - released
                stop.set()
                watcher.join()
            if code != 0 or held != count:
                sys.exit(
                    f"{held} of {count} attempts sent a request, exit {code}\n"
                    + (folder / "messages").read_text()[-2000:]
                )
            AbRun(took, memory, next(out.iterdir())).expect_passed(count)
    finally:
        model.process.kill()
    report.value(f"{count} attempts open and waiting after", took, "s", backend=backend)
    report.value("memory of the harness while they wait (PSS)", own + spawner, "MB", backend=backend, most=WANTED_MB)
    report.value("  of that the process that spawns", spawner, "MB", backend=backend)
    report.value("  peak of its process (RSS), to the end", memory.peak, "MB", backend=backend, most=WANTED_MB)
    report.value("all answered, graded and recorded after", rest, "s", backend=backend)


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("--attempts", type=int, default=ATTEMPTS, help="attempts at once (%(default)s)")
    arguments = options.parse_args()
    with open_report("waiting", arguments.json) as report:
        # One backend is enough by default: the waiting process is the same for both.
        for backend in available_backends(arguments.sandbox or ["bwrap"], report):
            measure(backend, arguments.attempts, report)


if __name__ == "__main__":
    main()
