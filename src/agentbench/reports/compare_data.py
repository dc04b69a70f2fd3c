"""A comparison of several methods as JSON, and its methods as CSV."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.core.canonical import Json
from agentbench.reports.compare import CompareReport, decision
from agentbench.reports.escape import csv_text
from agentbench.reports.json_parts import interval_json, seals_json, task_rate_json
from agentbench.statistics.intervals import ALPHA


def as_json(report: CompareReport) -> dict[str, Json]:
    names = [line.name for line in report.methods]
    return {
        "decision": decision(report),
        "rate": report.rate,
        "alpha": ALPHA,
        "tasks": list(report.tasks),
        "left_out": list(report.left_out),
        "methods": [_method_json(report, index) for index in range(len(names))],
        "pairs": [
            {
                "a": names[duel.a],
                "b": names[duel.b],
                "difference": duel.comparison.difference,
                "interval": interval_json(duel.comparison.interval),
                "p_value": duel.comparison.p_value,
                "adjusted_p_value": duel.adjusted,
                "better": None if duel.winner is None else names[duel.winner],
            }
            for duel in report.duels
        ],
        "best_set": [names[index] for index in report.best],
        "front": [names[index] for index in report.front],
        "cost_unit": report.unit or None,
        "cost_basis": report.cost_basis or None,
        "cost_problem": report.cost_problem or None,
        "differences": list(report.differences),
        "remarks": list(report.remarks),
        "deviations": list(report.deviations),
    }


def _method_json(report: CompareReport, index: int) -> dict[str, Json]:
    line = report.methods[index]
    return {
        "name": line.name,
        "origin": line.side.origin,
        "rate": task_rate_json(line.rate),
        "cost_per_attempt": line.cost,
        "other_unit": line.other_unit or None,
        "strength": report.strengths[index] if report.strengths else None,
        **(seals_json(line.side.run) if line.side.run else {}),
    }


def as_csv(report: CompareReport) -> str:
    """Return one row per method."""
    rows: list[Mapping[str, str | float | int | None]] = []
    for index, line in enumerate(report.methods):
        interval = line.rate.interval
        rows.append(
            {
                "method": line.name,
                "rate": line.rate.share,
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "passed": line.rate.passed,
                "attempts": line.rate.attempts,
                "cost_per_attempt": line.cost,
                "best_set": int(index in report.best),
                "front": int(index in report.front),
                "strength": report.strengths[index] if report.strengths else None,
                **line.side.seal_marks.cells(),
            }
        )
    return csv_text(list(rows[0]), rows)
