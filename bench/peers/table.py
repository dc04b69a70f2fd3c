"""What was measured as a table, with ratios against ours, and whether what was promised holds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from bench.peers.work import CALLS, Found

DOCKER = "ours, docker"
BWRAP = "ours, bubblewrap"
INSPECT = "Inspect AI"
LOCAL = "Inspect AI, no isolation"
HARBOR = "Harbor"


def each(found: Found | None, kind: str, workers: str) -> float | None:
    """Seconds per attempt or grading: those of all, by their number."""
    one = getattr(found, kind).get(workers) if found else None
    return one["seconds"] / one["count"] if one else None


def p50(found: Found | None, call: str) -> float | None:
    return statistics.median(found.calls[call]) if found and found.calls.get(call) else None


def p99(found: Found | None, call: str) -> float | None:
    values = sorted(found.calls[call]) if found and found.calls.get(call) else []
    return values[min(len(values) - 1, int(len(values) * 0.99))] if values else None


def ratio(theirs: float | None, mine: float | None) -> float | None:
    return theirs / mine if theirs is not None and mine else None


def shown(found: Mapping[str, Found], missing: Mapping[str, str]) -> str:
    mine = found[DOCKER]
    lines = ["", "calls: milliseconds p50 / p99 (× ours, docker)", _row("", *CALLS)]
    for name, one in found.items():
        cells = [_call(one, call, mine) for call in CALLS]
        lines.append(_row(name, *cells))
    lines += ["", "seconds each: an attempt of ten calls with its grading, and the grading of a patch (× ours, docker)"]
    heads = [("attempts", "2"), ("attempts", "1"), ("gradings", "2"), ("gradings", "1")]
    lines.append(_row("", *(f"{kind[:-1]}, {workers} worker{'s' * (workers != '1')}" for kind, workers in heads)))
    for name, one in found.items():
        lines.append(_row(name, *(_each(one, kind, workers, mine) for kind, workers in heads)))
    lines.append("")
    lines += [f"{name}: {note}" for name, one in found.items() for note in one.notes]
    lines += [f"not measured: {name}: {why}" for name, why in missing.items()]
    lines += ["", "wanted, and what came of it"]
    lines += [f"{_verdict(one['met'])} {one['what']}: {one['value']} (wanted: {one['wanted']})" for one in goals(found)]
    return "\n".join(lines)


def _row(name: str, *cells: str) -> str:
    return f"{name:<26}" + "".join(f"{cell:>24}" for cell in cells)


def _call(one: Found, call: str, mine: Found) -> str:
    middle, high = p50(one, call), p99(one, call)
    return (
        "–" if middle is None or high is None else f"{middle:.1f} / {high:.1f}{_times(ratio(middle, p50(mine, call)))}"
    )


def _each(one: Found, kind: str, workers: str, mine: Found) -> str:
    value = each(one, kind, workers)
    return "–" if value is None else f"{value:.3f}{_times(ratio(value, each(mine, kind, workers)))}"


def _times(value: float | None) -> str:
    return "" if value is None else f" ({value:.1f}×)"


def _verdict(met: object) -> str:
    return {True: "yes", False: "NO ", None: "?  "}[met if isinstance(met, bool) else None]


def goals(found: Mapping[str, Found]) -> list[dict[str, object]]:
    """What the sandboxes promise, as far as this run can tell."""
    docker, bwrap = found[DOCKER], found[BWRAP]
    told: list[dict[str, object]] = []
    for name, one in ((DOCKER, docker), (BWRAP, bwrap)):
        for call in CALLS:
            told.append(_most(f"{name}: a call of `{call}` with its events, p50", p50(one, call), 4, "ms"))
            told.append(_most(f"{name}: a call of `{call}` with its events, p99", p99(one, call), 15, "ms"))
    for name, one in found.items():
        if name not in {DOCKER, BWRAP, LOCAL}:
            told.append(
                _least(f"a call of `true`, {name} over {DOCKER}", ratio(p50(one, "true"), p50(docker, "true")), 15)
            )
    told.append(_most(f"{DOCKER}: an attempt at two workers", each(docker, "attempts", "2"), 0.65, "s"))
    told.append(_most(f"{BWRAP}: an attempt at two workers", each(bwrap, "attempts", "2"), 0.13, "s"))
    for name, mine, factor in ((INSPECT, docker, 3), (HARBOR, docker, 5), (INSPECT, bwrap, 15)):
        over = ratio(each(found.get(name), "attempts", "2"), each(mine, "attempts", "2"))
        told.append(
            _least(f"an attempt at two workers, {name} over {DOCKER if mine is docker else BWRAP}", over, factor)
        )
    over = ratio(each(bwrap, "attempts", "2"), each(found.get(LOCAL), "attempts", "2"))
    told.append(
        {
            "what": f"an attempt at two workers, {BWRAP} over {LOCAL}",
            "value": _short(over, "×"),
            "wanted": "about 1",
            "met": None,
        }
    )
    return told


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
