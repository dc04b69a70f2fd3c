"""How long reports take: the summary of a large run, a paired bootstrap, the page and its first view, and whether cost is linear."""

from __future__ import annotations

import functools
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from agentbench.reports.html.page import write_page
from agentbench.reports.sources import open_run, open_sides
from agentbench.statistics.bootstrap import bootstrap_interval
from agentbench.statistics.paired import compare, pair
from agentbench.statistics.trials import Rate
from bench.conditions import conditions
from tests.reports.large import large_run
from tests.web.sample import events, sample, write_run

AB = str(Path(sys.executable).parent / "ab")


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of the processor, our own and of processes that ended."""
    start, used = time.perf_counter(), processor()
    action()
    return time.perf_counter() - start, processor() - used


def processor() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def shown(took: tuple[float, float]) -> str:
    return f"{took[0]:6.2f} s, {took[1]:6.2f} s of processor"


def summary(run: Path) -> tuple[tuple[float, float], float]:
    """Seconds and megabytes of `ab report summary` in a process of its own."""
    argv = [AB, "report", "summary", "--run", str(run)]
    took = timed(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL))
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def first_view(page: Path) -> float | None:
    """Seconds from asking for the page until it has drawn itself; None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only where there is a browser

    from tests.web.conftest import FLAGS  # noqa: PLC0415

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, headless=True, args=FLAGS, offline=True
        )
        tab = context.new_page()
        tab.goto("about:blank")
        took = []
        for address in ("#/", "#/attempts"):
            start = time.perf_counter()
            tab.goto(f"file://{page}{address}")
            tab.wait_for_selector("html[data-ready] main > *")
            took.append(time.perf_counter() - start)
            tab.goto("about:blank")
        context.close()
    return max(took)


def main() -> None:
    print(f"conditions: {conditions()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        summaries(folder)
        comparison(folder)
        pages(folder)


def summaries(folder: Path) -> None:
    for attempts in (10_000, 50_000, 100_000):
        took, memory = summary(large_run(folder / f"r{attempts}", attempts, 2_000))
        print(f"summary of {attempts:7} attempts   {shown(took)}, {memory:4.0f} MB   (wanted at 100000: 3 s, 500 MB)")


def comparison(folder: Path) -> None:
    paths = [large_run(folder / name, 10_000, 2_000, variant=name, seed=seed) for name, seed in (("a", 3), ("b", 4))]
    a, b = open_sides(*map(str, paths))
    pairing = pair(a.trials, b.trials, Rate.CONTRACT)
    values = [float(one.difference) for one in pairing.pairs]
    print(f"bootstrap, 10000 x 2000 x 5      {shown(timed(lambda: bootstrap_interval(values)))}   (wanted: 1 s)")
    print(f"whole comparison of the same     {shown(timed(lambda: compare(pairing, Rate.CONTRACT)))}")


def pages(folder: Path) -> None:
    for attempts in (1_000, 5_000):
        names = [f"task-{number:05}" for number in range(attempts)]
        records = [sample(name, "pass" if number % 3 else "fail") for number, name in enumerate(names)]
        run = write_run(folder / f"p{attempts}", records, traces={f"tasks/{name}": events() * 3 for name in names})
        page = folder / f"page{attempts}"
        took = timed(functools.partial(_write, page, run))
        view = first_view(page / "index.html")
        seen = "no browser" if view is None else f"first view {view:.2f} s"
        print(f"page of {attempts:5} attempts          {shown(took)}, {seen}   (wanted at 5000: 10 s, 1 s)")
    long = [one for _ in range(4_000) for one in events("x" * 700)]
    run = write_run(folder / "long", [sample("long")], traces={"tasks/long": long})
    size = (run / "tasks/long/events.jsonl").stat().st_size / 1e6
    took = timed(functools.partial(_write, folder / "longpage", run))
    parts = len(list((folder / "longpage/data").glob("t0-*")))
    print(f"page of a {size:4.0f} MB trace          {shown(took)}, {len(long)} events in {parts} parts")


def _write(page: Path, run: Path) -> None:
    write_page(page, [open_run(run)])


if __name__ == "__main__":
    main()
