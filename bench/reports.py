"""Measure reports: the summary of a large run, a paired bootstrap, and writing and loading the HTML page, at several sizes."""

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
from bench.report import Report, argument_parser, open_report
from tests.reports.large import large_run
from tests.web.sample import events, sample, write_run

AB = str(Path(sys.executable).parent / "ab")


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock seconds and processor seconds, including those of finished child processes."""
    start, used = time.perf_counter(), processor()
    action()
    return time.perf_counter() - start, processor() - used


def processor() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def summary(run: Path) -> tuple[tuple[float, float], float]:
    """Return seconds and megabytes of `ab report summary` in its own process."""
    argv = [AB, "report", "summary", "--run", str(run)]
    took = timed(lambda: subprocess.run(argv, check=True, stdout=subprocess.DEVNULL))
    return took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def first_view(page: Path) -> float | None:
    """Return the seconds from opening the page until it is rendered, or None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - needed only with a browser

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
    arguments = argument_parser(__doc__).parse_args()
    with open_report("reports", arguments.json) as report, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        summaries(folder, report)
        comparison(folder, report)
        pages(folder, report)


def add_time(report: Report, name: str, took: tuple[float, float], *, most: float | None = None) -> None:
    report.value(name, took[0], "s", most=most)
    report.value("  of the processor", took[1], "s")


def summaries(folder: Path, report: Report) -> None:
    for attempts in (10_000, 50_000, 100_000):
        took, memory = summary(large_run(folder / f"r{attempts}", attempts, 2_000))
        last = attempts == 100_000
        add_time(report, f"summary of {attempts} attempts", took, most=3 if last else None)
        report.value("  memory", memory, "MB", most=500 if last else None)


def comparison(folder: Path, report: Report) -> None:
    paths = [large_run(folder / name, 10_000, 2_000, variant=name, seed=seed) for name, seed in (("a", 3), ("b", 4))]
    a, b = open_sides(*map(str, paths))
    pairing = pair(a.trials, b.trials, Rate.CONTRACT)
    values = [float(task_pair.difference) for task_pair in pairing.pairs]
    add_time(
        report, "bootstrap, 10000 draws of 2000 tasks with 5 runs", timed(lambda: bootstrap_interval(values)), most=1
    )
    add_time(report, "whole comparison of the same", timed(lambda: compare(pairing, Rate.CONTRACT)))


def pages(folder: Path, report: Report) -> None:
    for attempts in (1_000, 5_000):
        names = [f"task-{number:05}" for number in range(attempts)]
        records = [sample(name, "pass" if number % 3 else "fail") for number, name in enumerate(names)]
        run = write_run(folder / f"p{attempts}", records, traces={f"tasks/{name}": events() * 3 for name in names})
        page = folder / f"page{attempts}"
        last = attempts == 5_000
        add_time(
            report,
            f"page of {attempts} attempts",
            timed(functools.partial(_write, page, run)),
            most=10 if last else None,
        )
        view = first_view(page / "index.html")
        if view is None:
            report.note("first view not measured: no browser")
        else:
            report.value("  first view", view, "s", most=1 if last else None)
    long = [event for _ in range(4_000) for event in events("x" * 700)]
    run = write_run(folder / "long", [sample("long")], traces={"tasks/long": long})
    size = (run / "tasks/long/events.jsonl").stat().st_size / 1e6
    add_time(report, f"page of a {size:.0f} MB trace", timed(functools.partial(_write, folder / "longpage", run)))
    parts = len(list((folder / "longpage/data").glob("t0-*")))
    report.note(f"{len(long)} events in {parts} parts")


def _write(page: Path, run: Path) -> None:
    write_page(page, [open_run(run)])


if __name__ == "__main__":
    main()
