"""Measure `ab view` over many runs: the first list, an attempt with a long trace, the explorer, live events, frames, memory and idle CPU.

The server runs in a process of its own. First paint and frames are measured in a browser, if one is installed.

    python -m bench.view [--runs N] [--attempts N]
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench.report import Report, argument_parser, open_report
from tests.reports.large import large_run
from tests.view.live_run import LiveRun
from tests.web.sample import events, sample, write_run

AB = str(Path(sys.executable).parent / "ab")
RUNS = 1_000
ATTEMPTS = 100
EVENTS = 10_000
GROUP_BY = "select variant, reason, count(*), avg(passed::int), avg(duration_sec), sum(cost) from attempts group by all order by all"
IDLE_SEC = 10
PARALLEL = 200
LIVE_EVENTS = 600
FRAME_SEC = 10


def write_runs(folder: Path, runs: int, attempts: int) -> None:
    first = large_run(folder / "run-0000", attempts, attempts)
    for number in range(1, runs):
        copy = folder / f"run-{number:04}"
        shutil.copytree(first, copy)
    trace = [event for _ in range(EVENTS // len(events())) for event in events()]
    write_run(folder / "long", [sample("long", "fail")], traces={"tasks/long": trace})


def live_delays(client: httpx.Client, folder: Path) -> list[float]:
    """Return the seconds from an event on disk until a client has it, while 200 attempts are under way."""
    written: dict[str, float] = {}
    delays: list[float] = []
    with LiveRun(folder / "live", PARALLEL) as run:
        key = _key(client, "live")

        def write() -> None:
            for number in range(LIVE_EVENTS):
                run.step(number % PARALLEL, f"make {number}")
                written[f"make {number}"] = time.perf_counter()
                time.sleep(0.01)

        writer = threading.Thread(target=write)
        with client.stream("GET", f"/api/run/{key}/live") as stream:
            for line in stream.iter_lines():
                now = time.perf_counter()
                if not line.startswith("data: "):
                    continue
                if not writer.is_alive() and not written:
                    writer.start()
                for step in json.loads(line[6:])["log"]:
                    command = step["payload"]["arguments"]["command"]
                    delays.append(now - written.get(command, now))
                if f"make {LIVE_EVENTS - 1}" in line:
                    break
        writer.join()
    return sorted(delays)


@dataclass(frozen=True)
class Frames:
    """Measure how smoothly a page of 200 running attempts scrolls."""

    still: list[float]
    """Sorted seconds between frames while no event is written."""
    live: list[float]
    """The same while 100 events per second are written."""
    busy: float
    """Processor seconds of the page's main thread per second of `live`, less those of `still`."""


def frames(url: str, client: httpx.Client, folder: Path) -> Frames | None:
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needed only with a browser

    script = """(seconds) => new Promise((done) => {
      const times = []; const start = performance.now(); let last = null;
      const frame = (now) => { if (last !== null) times.push((now - last) / 1000); last = now;
        scrollTo(0, (times.length * 7) % 400);
        if (now - start < seconds * 1000) requestAnimationFrame(frame); else done(times.sort((a, b) => a - b)); };
      requestAnimationFrame(frame); })"""
    with LiveRun(folder / "frames", PARALLEL) as run, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(url)
        page.goto(f"{client.base_url}#/run/{_key(client, 'frames')}")
        page.locator("#workers .step").nth(PARALLEL - 1).wait_for(timeout=120_000)
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

        def measured() -> tuple[list[float], float]:
            before = _task_sec(metrics.send("Performance.getMetrics"))
            times = page.evaluate(script, FRAME_SEC)
            return times, _task_sec(metrics.send("Performance.getMetrics")) - before

        still, still_sec = measured()
        ended = threading.Event()

        def write() -> None:
            for number in itertools.count():
                if ended.wait(0.01):
                    return
                run.step(number % PARALLEL, f"make {number}")

        writer = threading.Thread(target=write)
        writer.start()
        live, live_sec = measured()
        ended.set()
        writer.join()
        browser.close()
    return Frames(still, live, max(0.0, live_sec - still_sec) / FRAME_SEC)


def _task_sec(metrics: dict[str, Any]) -> float:
    return float(next(metric["value"] for metric in metrics["metrics"] if metric["name"] == "TaskDuration"))


def memory_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def cpu_sec(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def first_paint(url: str, address: str) -> tuple[float, float] | None:
    """Return the seconds from the click until the verdict is painted, and until all of the attempt is."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needed only with a browser

    script = """(address) => new Promise((done) => {
      const start = performance.now(); let head = null;
      const look = () => { const main = document.getElementById('main');
        if (head === null && main.querySelector('.hero .lead')) head = performance.now() - start;
        if (main.querySelector('#gates3')) done([head, performance.now() - start]); else requestAnimationFrame(look); };
      location.hash = address; look(); })"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(url)
        page.wait_for_selector("#runs tbody tr", timeout=120_000)
        page.evaluate("address => { location.hash = address; }", address.rpartition("/attempt/")[0])
        page.wait_for_selector(".sub-nav", timeout=120_000)
        head, whole = page.evaluate(script, address)
        browser.close()
        return head / 1000, whole / 1000


def measure(folder: Path, report: Report, runs: int, attempts: int) -> None:
    server = subprocess.Popen([AB, "view", str(folder), "--json"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None  # noqa: S101 - a pipe was asked for
    url = json.loads(server.stdout.readline())["url"]
    base, _, token = url.partition("/?token=")
    try:
        with httpx.Client(base_url=base, timeout=300, headers={"origin": base}) as client:
            client.get("/", params={"token": token})
            start = time.perf_counter()
            client.get("/api/runs").raise_for_status()
            report.value(f"first list of {runs} runs, cold", time.perf_counter() - start, "s", most=1.0)
            while client.get("/api/runs").json()["pending"]:
                time.sleep(0.2)
            total = runs * attempts
            report.value(f"until all {total} attempts are read", time.perf_counter() - start, "s")
            warm = [_timed(lambda: client.get("/api/runs").raise_for_status()) for _ in range(5)]
            report.value("list, warm, worst of 5", max(warm), "s", most=0.2)
            asked = [
                _timed(lambda: client.post("/api/query", json={"sql": GROUP_BY}).raise_for_status()) for _ in range(5)
            ]
            report.value(f"group-by over {total} attempts, worst of 5", max(asked), "s", most=0.5)
            delays = live_delays(client, folder)
            report.value(f"event on disk to the client, {PARALLEL} attempts, median", delays[len(delays) // 2], "s")
            report.value("  99th percentile", delays[len(delays) * 99 // 100], "s", most=0.5)
            smooth = frames(url, client, folder)
            run = next(entry for entry in client.get("/api/runs").json()["runs"] if entry["name"] == "long")
            page = client.get(f"/api/run/{run['key']}/page").json()
            attempt = page["attempts"][0][page["columns"].index("id")]
            painted = first_paint(url, f"#/run/{run['key']}/attempt/{attempt}")
        if painted is None or smooth is None:
            report.note("no browser: first paint and frames not measured")
        else:
            for name, times in (("no events", smooth.still), ("100 events per second", smooth.live)):
                report.value(f"frames of {PARALLEL} attempts, {name}, median", times[len(times) // 2], "s")
                report.value("  99th percentile", times[len(times) * 99 // 100], "s")
            report.value("main thread of the page, per second, for the events", smooth.busy, "s", most=0.1)
            report.value(f"attempt with {EVENTS} events, first paint", painted[0], "s", most=0.3)
            report.value("  all of its verdict", painted[1], "s")
        time.sleep(1)
        used = cpu_sec(server.pid)
        time.sleep(IDLE_SEC)
        report.value(f"processor time of {IDLE_SEC} idle seconds", round(cpu_sec(server.pid) - used, 2), "s", most=0.02)
        report.value("memory of the server, peak", memory_mb(server.pid), "MB", most=150)
    finally:
        server.terminate()
        server.wait(30)


def _key(client: httpx.Client, name: str) -> str:
    """Wait until a run is listed, and return its key."""
    while True:
        for run in client.get("/api/runs").json()["runs"]:
            if run["name"] == name:
                return str(run["key"])
        time.sleep(0.2)


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    options = argument_parser(__doc__)
    options.add_argument("--runs", type=int, default=RUNS, help=f"runs in the folder ({RUNS})")
    options.add_argument("--attempts", type=int, default=ATTEMPTS, help=f"attempts of a run ({ATTEMPTS})")
    arguments = options.parse_args()
    with open_report("view", arguments.json) as report, tempfile.TemporaryDirectory(prefix="ab-bench-") as folder:
        write_runs(Path(folder), arguments.runs, arguments.attempts)
        measure(Path(folder), report, arguments.runs, arguments.attempts)


if __name__ == "__main__":
    main()
