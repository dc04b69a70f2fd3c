"""Render the measurements as a table with ratios against ours, and evaluate the performance goals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from bench.peers.work import CALLS, Measurements

DOCKER = "ours, docker"
BWRAP = "ours, bubblewrap"
INSPECT = "Inspect AI"
LOCAL = "Inspect AI, no isolation"
HARBOR = "Harbor"


def each(measurements: Measurements | None, kind: str, workers: str) -> float | None:
    """Return the seconds per attempt or grading."""
    totals = getattr(measurements, kind).get(workers) if measurements else None
    return totals["seconds"] / totals["count"] if totals else None


def p50(measurements: Measurements | None, call: str) -> float | None:
    return statistics.median(measurements.calls[call]) if measurements and measurements.calls.get(call) else None


def p99(measurements: Measurements | None, call: str) -> float | None:
    values = sorted(measurements.calls[call]) if measurements and measurements.calls.get(call) else []
    return values[min(len(values) - 1, int(len(values) * 0.99))] if values else None


def ratio(theirs: float | None, mine: float | None) -> float | None:
    return theirs / mine if theirs is not None and mine else None


def render_table(measured: Mapping[str, Measurements], missing: Mapping[str, str]) -> str:
    mine = measured[DOCKER]
    lines = ["", "calls: milliseconds p50 / p99 (× ours, docker)", _row("", *CALLS)]
    for name, measurements in measured.items():
        cells = [_call(measurements, call, mine) for call in CALLS]
        lines.append(_row(name, *cells))
    lines += ["", "seconds each: an attempt of ten calls with its grading, and the grading of a patch (× ours, docker)"]
    heads = [("attempts", "2"), ("attempts", "1"), ("gradings", "2"), ("gradings", "1")]
    lines.append(_row("", *(f"{kind[:-1]}, {workers} worker{'s' * (workers != '1')}" for kind, workers in heads)))
    for name, measurements in measured.items():
        lines.append(_row(name, *(_each(measurements, kind, workers, mine) for kind, workers in heads)))
    lines.append("")
    lines += [f"{name}: {note}" for name, measurements in measured.items() for note in measurements.notes]
    lines += [f"not measured: {name}: {reason}" for name, reason in missing.items()]
    lines += ["", "goals"]
    lines += [
        f"{_verdict(goal['met'])} {goal['what']}: {goal['value']} (goal: {goal['wanted']})" for goal in goals(measured)
    ]
    return "\n".join(lines)


def _row(name: str, *cells: str) -> str:
    return f"{name:<26}" + "".join(f"{cell:>24}" for cell in cells)


def _call(measurements: Measurements, call: str, mine: Measurements) -> str:
    middle, high = p50(measurements, call), p99(measurements, call)
    return (
        "–" if middle is None or high is None else f"{middle:.1f} / {high:.1f}{_times(ratio(middle, p50(mine, call)))}"
    )


def _each(measurements: Measurements, kind: str, workers: str, mine: Measurements) -> str:
    value = each(measurements, kind, workers)
    return "–" if value is None else f"{value:.3f}{_times(ratio(value, each(mine, kind, workers)))}"


def _times(value: float | None) -> str:
    return "" if value is None else f" ({value:.1f}×)"


def _verdict(met: object) -> str:
    return {True: "yes", False: "NO ", None: "?  "}[met if isinstance(met, bool) else None]


def goals(measured: Mapping[str, Measurements]) -> list[dict[str, object]]:
    """Evaluate the performance goals that this run can check."""
    docker, bwrap = measured[DOCKER], measured[BWRAP]
    rows: list[dict[str, object]] = []
    for name, measurements in ((DOCKER, docker), (BWRAP, bwrap)):
        for call in CALLS:
            rows.append(_most(f"{name}: a call of `{call}` with its events, p50", p50(measurements, call), 4, "ms"))
            rows.append(_most(f"{name}: a call of `{call}` with its events, p99", p99(measurements, call), 15, "ms"))
    for name, measurements in measured.items():
        if name not in {DOCKER, BWRAP, LOCAL}:
            rows.append(
                _least(
                    f"a call of `true`, {name} over {DOCKER}", ratio(p50(measurements, "true"), p50(docker, "true")), 15
                )
            )
    rows.append(_most(f"{DOCKER}: an attempt at two workers", each(docker, "attempts", "2"), 0.65, "s"))
    rows.append(_most(f"{BWRAP}: an attempt at two workers", each(bwrap, "attempts", "2"), 0.13, "s"))
    for name, mine, factor in ((INSPECT, docker, 3), (HARBOR, docker, 5), (INSPECT, bwrap, 15)):
        over = ratio(each(measured.get(name), "attempts", "2"), each(mine, "attempts", "2"))
        rows.append(
            _least(f"an attempt at two workers, {name} over {DOCKER if mine is docker else BWRAP}", over, factor)
        )
    over = ratio(each(bwrap, "attempts", "2"), each(measured.get(LOCAL), "attempts", "2"))
    rows.append(
        {
            "what": f"an attempt at two workers, {BWRAP} over {LOCAL}",
            "value": _short(over, "×"),
            "wanted": "about 1",
            "met": None,
        }
    )
    return rows


def _most(what: str, value: float | None, bound: float, unit: str) -> dict[str, object]:
    met = None if value is None else value <= bound
    return {"what": what, "value": _short(value, f" {unit}"), "wanted": f"at most {bound:g} {unit}", "met": met}


def _least(what: str, value: float | None, bound: float) -> dict[str, object]:
    return {
        "what": what,
        "value": _short(value, "×"),
        "wanted": f"at least {bound:g}×",
        "met": None if value is None else value >= bound,
    }


def _short(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.3g}{unit}"
