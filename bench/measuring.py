"""Numbers of a bench: printed as they come, with what was wanted, and kept as JSON where asked for.

A file of results holds one part for each bench. A bench replaces its own part and leaves the others, so that a set can be
taken piece by piece; each part says when, on what and under which load it was taken.
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


def parser(description: str | None, *, sandbox: bool = False) -> argparse.ArgumentParser:
    """Options that benches share."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results here, beside those of other benches")
    if sandbox:
        made.add_argument(
            "--sandbox", action="append", choices=BACKENDS, help="one backend only (default: all that can be used here)"
        )
    return made


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(len(ranked) * share))]


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


@dataclass
class Report:
    """What one bench found."""

    bench: str
    path: Path | None = None
    found: list[dict[str, object]] = field(default_factory=list)
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    load_before: list[float] = field(default_factory=load)

    def times(
        self, name: str, values: Sequence[float], *, backend: str = "", goals: dict[str, float] | None = None
    ) -> None:
        """Milliseconds of the same thing done many times. Goals are the most that p50 or p99 may be."""
        measured = {
            "p50": statistics.median(values),
            "p95": quantile(values, 0.95),
            "p99": quantile(values, 0.99),
            "least": min(values),
            "most": max(values),
        }
        wanted = goals or {}
        self._keep(
            name,
            backend,
            {"unit": "ms", "times": len(values), **{key: round(one, 3) for key, one in measured.items()}},
            wanted,
            met=all(measured[key] <= most for key, most in wanted.items()),
        )
        told = ", ".join(f"{key} {measured[key]:.1f}" for key in ("p50", "p99", "least"))
        self._say(name, backend, f"{told} ms ({len(values)} times)", _limits(wanted, "ms"))

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
        """One number, and the most or the least that it may be."""
        wanted = {key: bound for key, bound in (("most", most), ("least", least)) if bound is not None}
        met = (most is None or value <= most) and (least is None or value >= least)
        self._keep(name, backend, {"unit": unit, "value": round(value, 4)}, wanted, met=met)
        self._say(name, backend, f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}", _limits(wanted, unit))

    def note(self, text: str, *, backend: str = "") -> None:
        """What no number says."""
        self.found.append({"note": text, **({"backend": backend} if backend else {})})
        print(f"{backend + ': ' if backend else ''}{text}", flush=True)

    def write(self) -> None:
        """Into the file, if there is one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole: dict[str, dict[str, object]] = {}
        if self.path.exists():
            whole = json.loads(self.path.read_text(encoding="utf-8"))
        whole.setdefault("benches", {})[self.bench] = {
            "taken_at": self.began,
            "machine": machine(),
            "load_before": self.load_before,
            "load_after": load(),
            **remark(),
            "results": self.found,
        }
        text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)

    def _keep(
        self, name: str, backend: str, measured: dict[str, object], goals: dict[str, float], *, met: bool
    ) -> None:
        entry: dict[str, object] = {"name": name, **({"backend": backend} if backend else {}), **measured}
        if goals:
            entry |= {"wanted": goals, "met": met}
        self.found.append(entry)

    def _say(self, name: str, backend: str, told: str, wanted: str) -> None:
        print(f"{f'{backend}: ' if backend else ''}{name}: {told}{wanted}", flush=True)


def _limits(wanted: dict[str, float], unit: str) -> str:
    words = {"most": "at most", "least": "at least"}
    return (
        f"   (wanted: {', '.join(f'{words.get(key, key)} {one:g} {unit}' for key, one in wanted.items())})"
        if wanted
        else ""
    )


@contextmanager
def reporting(bench: str, path: Path | None) -> Iterator[Report]:
    """A report that is written when the bench ends well: half a measurement is none."""
    report = Report(bench, path)
    print(f"conditions: {conditions()}", flush=True)
    yield report
    report.write()


@contextmanager
def opened(name: str, report: Report) -> Iterator[Backend | None]:
    """A backend, or None (said in the report) where it cannot be used."""
    try:
        backend = open_backend(name, state=default_state(), needs_image=False)
    except SandboxUnavailable as error:
        report.note(f"cannot be used here: {error.message} ({error.remedy})", backend=name)
        yield None
        return
    try:
        backend.check(SandboxSpec(Phase.AGENT, Limits()))
    except SandboxUnavailable as error:
        report.note(f"cannot be used here: {error.message} ({error.remedy})", backend=name)
        backend.close()
        yield None
        return
    try:
        yield backend
    finally:
        backend.close()


def usable(asked: Sequence[str] | None, report: Report) -> list[str]:
    """The backends to measure: those asked for, or all that can be used here."""
    names = []
    for name in asked or BACKENDS:
        with opened(name, report) as backend:
            if backend is not None:
                names.append(name)
    if not names:
        sys.exit("no sandbox can be used here: `ab doctor` says why")
    return names
