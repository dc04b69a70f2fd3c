"""Collect the measurements of a bench, print them with their goals, and write them as JSON.

A results file has one part per bench. A bench replaces its own part and leaves the others, so a set can be measured piece
by piece; each part records when, on which machine and under which load it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.protocol import Backend, Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import default_state
from bench.conditions import conditions, load, machine, remark

BACKENDS = ("bwrap", "docker")


def argument_parser(description: str | None, *, sandbox: bool = False) -> argparse.ArgumentParser:
    """Return a parser with the options that benches share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the results to FILE, next to those of other benches"
    )
    if sandbox:
        parser.add_argument(
            "--sandbox",
            action="append",
            choices=BACKENDS,
            help="measure one backend only (default: all available ones)",
        )
    return parser


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


@dataclass
class Report:
    """The results of one bench."""

    bench: str
    path: Path | None = None
    results: list[dict[str, object]] = field(default_factory=list)
    details: list[dict[str, object]] = field(default_factory=list)
    """Single measurements behind the results, written but not printed."""
    started_at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    load_before: list[float] = field(default_factory=load)

    def times(
        self, name: str, values: Sequence[float], *, backend: str = "", goals: dict[str, float] | None = None
    ) -> None:
        """Add the milliseconds of a repeated action. Goals are upper limits for p50 or p99."""
        measured = {
            "p50": statistics.median(values),
            "p95": quantile(values, 0.95),
            "p99": quantile(values, 0.99),
            "least": min(values),
            "most": max(values),
        }
        goals = goals or {}
        met = all(measured[key] <= most for key, most in goals.items())
        numbers = {"unit": "ms", "times": len(values), **{key: round(number, 3) for key, number in measured.items()}}
        self._add(name, backend, numbers, goals, met=met)
        text = ", ".join(f"{key} {measured[key]:.1f}" for key in ("p50", "p99", "least"))
        self._print(name, backend, f"{text} ms ({len(values)} times)", _format_goals(goals, "ms", met=met))

    def value(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        backend: str = "",
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """Add one number with its upper or lower limit."""
        goals = {key: bound for key, bound in (("most", most), ("least", least)) if bound is not None}
        met = (most is None or value <= most) and (least is None or value >= least)
        self._add(name, backend, {"unit": unit, "value": round(value, 4)}, goals, met=met)
        text = f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
        self._print(name, backend, text, _format_goals(goals, unit, met=met))

    def note(self, text: str, *, backend: str = "") -> None:
        """Add a remark to the results."""
        self.results.append({"note": text, **({"backend": backend} if backend else {})})
        print(f"{backend + ': ' if backend else ''}{text}", flush=True)

    def write(self) -> None:
        """Replace the part of this bench in the results file, if one was given."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole: dict[str, dict[str, object]] = {}
        if self.path.exists():
            whole = json.loads(self.path.read_text(encoding="utf-8"))
        whole.setdefault("benches", {})[self.bench] = {
            "taken_at": self.started_at,
            "machine": machine(),
            "load_before": self.load_before,
            "load_after": load(),
            **remark(),
            "results": self.results,
            **({"details": self.details} if self.details else {}),
        }
        text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)

    def print_goals(self) -> None:
        """Print how many goals are met, and which are not."""
        goals = [entry for entry in self.results if "met" in entry]
        if not goals:
            return
        missed = [entry for entry in goals if not entry["met"]]
        print(
            f"goals: {len(goals) - len(missed)} met, {len(missed)} missed; load {self.load_before[0]} before, {load()[0]} after"
        )
        for entry in missed:
            print(f"  missed: {entry.get('backend', 'here')}: {entry['name']}", flush=True)

    def _add(self, name: str, backend: str, measured: dict[str, object], goals: dict[str, float], *, met: bool) -> None:
        entry: dict[str, object] = {"name": name, **({"backend": backend} if backend else {}), **measured}
        if goals:
            entry |= {"wanted": goals, "met": met}
        self.results.append(entry)

    def _print(self, name: str, backend: str, text: str, goals: str) -> None:
        print(f"{f'{backend}: ' if backend else ''}{name}: {text}{goals}", flush=True)


def _format_goals(goals: dict[str, float], unit: str, *, met: bool) -> str:
    if not goals:
        return ""
    words = {"most": "at most", "least": "at least"}
    limits = ", ".join(f"{words.get(key, key)} {limit:g} {unit}" for key, limit in goals.items())
    return f"   (goal: {limits}: {'met' if met else 'MISSED'})"


@contextmanager
def open_report(bench: str, path: Path | None) -> Iterator[Report]:
    """Yield a report and write it if the bench succeeds; a partial measurement is not written."""
    report = Report(bench, path)
    print(f"conditions: {conditions()}", flush=True)
    yield report
    report.print_goals()
    report.write()


@contextmanager
def available_backend(name: str, report: Report) -> Iterator[Backend | None]:
    """Yield a backend, or None with a note in the report if it is not available."""
    try:
        backend = open_backend(name, state=default_state(), needs_image=False)
    except SandboxUnavailable as error:
        report.note(f"not available: {error.message} ({error.remedy})", backend=name)
        yield None
        return
    try:
        backend.check(SandboxSpec(Phase.AGENT, Limits()))
    except SandboxUnavailable as error:
        report.note(f"not available: {error.message} ({error.remedy})", backend=name)
        backend.close()
        yield None
        return
    try:
        yield backend
    finally:
        backend.close()


def available_backends(names: Sequence[str] | None, report: Report) -> list[str]:
    """Return the available ones of the given backends (default: all)."""
    available = []
    for name in names or BACKENDS:
        with available_backend(name, report) as backend:
            if backend is not None:
                available.append(name)
    if not available:
        sys.exit("no sandbox backend is available; run `ab doctor` for the reason")
    return available
