"""Data of a comparison on the page. Only pages that compare load this module, because its statistics need numpy (about 15 MB)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile

from agentbench.core.canonical import Json
from agentbench.reports.compare import MAX_METHODS, CompareReport
from agentbench.reports.compare_data import as_json as compare_json
from agentbench.reports.html.bounded import ByteBudget, bounded, bounded_members
from agentbench.reports.html.data import MAX_LISTED
from agentbench.reports.paired import PairedReport
from agentbench.reports.paired_data import as_json as paired_json
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run, Side

FLIP_BYTES = 2_000_000
MAX_LINKS = 5
"""Attempts linked per differing task."""

Positions = Mapping[tuple[str, str], int]
"""Maps the folder of a run and an attempt id to a position in the list of attempts."""


def compared_json(report: PairedReport | CompareReport, runs: Sequence[Run], index: Positions) -> dict[str, Json]:
    """Return the members of the page's data that describe a comparison."""
    if isinstance(report, PairedReport):
        return {"comparison": _paired(report, runs, index)}
    return {"methods": _methods(report, runs)}


def _paired(report: PairedReport, runs: Sequence[Run], index: Positions) -> dict[str, Json]:
    """Return the comparison with links to attempts."""
    numbers = paired_json(report)
    numbers.pop("flips")
    comparison = bounded_members(numbers, text=500, items=MAX_LISTED)
    flips: list[Json] = [
        {
            "task": bounded(flip.task, text=300),
            "a": flip.mean_a,
            "b": flip.mean_b,
            "why_a": bounded(list(flip.headlines_a)[:MAX_LINKS], text=300),
            "why_b": bounded(list(flip.headlines_b)[:MAX_LINKS], text=300),
            "attempts_a": _positions(flip.rows_a, report.a, index)[:MAX_LINKS],
            "attempts_b": _positions(flip.rows_b, report.b, index)[:MAX_LINKS],
        }
        for flip in report.flips
    ]
    comparison["flips"] = list(takewhile(ByteBudget(FLIP_BYTES).fits, flips))
    comparison["flipped"] = report.comparison.discordant
    for key, compared in (("a", report.a), ("b", report.b)):
        side = comparison[key]
        if isinstance(side, dict):
            side.pop("origin")
            side["run"] = _run_position(compared, runs)
    return comparison


def _methods(report: CompareReport, runs: Sequence[Run]) -> dict[str, Json]:
    """Return the comparison of several methods, each with the position of its run on the page."""
    methods = bounded_members(compare_json(report), text=500, items=MAX_METHODS**2)
    lines = methods["methods"]
    if isinstance(lines, list):
        for line, method in zip(lines, report.methods, strict=False):
            if isinstance(line, dict):
                line["run"] = _run_position(method.side, runs)
                line.pop("origin")
    return methods


def _run_position(side: Side, runs: Sequence[Run]) -> int | None:
    """Return the position of a side's run on the page; None for a CSV file."""
    return next((number for number, run in enumerate(runs) if side.run and run.path == side.run.path), None)


def _positions(rows: Sequence[Row], side: Side, index: Positions) -> list[Json]:
    return [index[key] for row in rows if (key := (str(side.folder), row.attempt_id)) in index]
