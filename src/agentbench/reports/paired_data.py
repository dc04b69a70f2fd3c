"""A paired comparison for machines: JSON with every number, CSV side by side."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.canonical import Json
from agentbench.reports.escape import Cell, csv_text
from agentbench.reports.figures import finite
from agentbench.reports.paired import PairedReport, cost_of, cost_units, costs_per_attempt, decision
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Side
from agentbench.reports.summary_data import interval_json
from agentbench.statistics.paired import ALPHA, Comparison, PairedTask


def as_json(report: PairedReport) -> dict[str, Json]:
    held, found = report.comparability, report.comparison
    return {
        "decision": decision(report),
        "better": found.better,
        "alpha": ALPHA,
        "labels": list(report.labels),
        "cannot_detect": report.cannot_detect,
        "a": {
            "name": report.a.name,
            "origin": report.a.origin,
            "attempts": len(report.a.trials),
            "cost": finite(cost_of(report.a)),
        },
        "b": {
            "name": report.b.name,
            "origin": report.b.origin,
            "attempts": len(report.b.trials),
            "cost": finite(cost_of(report.b)),
        },
        "comparability": {
            "comparable": held.comparable,
            "across_versions": list(held.across_versions),
            "differences": list(held.differences),
            "deviations": list(held.deviations),
            "unknown": held.unknown,
        },
        "cost_unit": units[0] if len(units := cost_units(report)) == 1 else None,
        "cost_per_attempt": _each(report),
        "rate": found.rate,
        "comparisons": {one.rate: comparison_json(one) for one in (found, report.other) if one is not None},
        "undecided_bounds": list(report.bounds) if report.bounds else None,
        "new_safety": list(report.new_safety),
        "unpaired": {
            "only_a": list(found.pairing.only_a),
            "only_b": list(found.pairing.only_b),
            "uncounted": list(found.pairing.uncounted),
        },
        "flips": [
            {
                "task": one.task,
                "a": one.mean_a,
                "b": one.mean_b,
                "why_a": list(one.why_a),
                "why_b": list(one.why_b),
                "task_dirs_a": _placed(one.rows_a, report.a),
                "task_dirs_b": _placed(one.rows_b, report.b),
            }
            for one in report.flips
        ],
    }


def _each(report: PairedReport) -> dict[str, Json] | None:
    """Cost of an attempt at the tasks both sides ran."""
    found = costs_per_attempt(report)
    return {"a": finite(found[0]), "b": finite(found[1])} if found else None


def comparison_json(one: Comparison) -> dict[str, Json]:
    table = one.contingency
    return {
        "tasks": len(one.pairing.pairs),
        "share_a": one.share_a,
        "share_b": one.share_b,
        "difference": one.difference,
        "interval": interval_json(one.interval),
        "contingency": (
            {"both": table.both, "only_a": table.only_a, "only_b": table.only_b, "neither": table.neither}
            if table
            else None
        ),
        "mcnemar_exact": one.mcnemar_exact,
        "mcnemar_mid_p": one.mcnemar_mid_p,
        "sign_flip": one.sign_flip,
        "method": one.method,
        "bootstrap": interval_json(one.bootstrap),
        "bootstrap_by_repository": interval_json(one.by_repository),
        "minimum_detectable_effect": one.detectable.effect if one.detectable else None,
        "notes": list(one.notes),
    }


CSV_HEAD = (
    "task",
    "attempts_a",
    "passed_a",
    "attempts_b",
    "passed_b",
    "mean_a",
    "mean_b",
    "difference",
    "task_dir_a",
    "task_dir_b",
)


def as_csv(report: PairedReport) -> str:
    """Side by side, one row per paired task."""
    return csv_text(CSV_HEAD, [_csv_row(one, report) for one in report.comparison.pairing.pairs])


def _csv_row(one: PairedTask, report: PairedReport) -> dict[str, Cell]:
    return {
        "task": one.task,
        "attempts_a": len(one.a),
        "passed_a": sum(one.a),
        "attempts_b": len(one.b),
        "passed_b": sum(one.b),
        "mean_a": float(one.mean_a),
        "mean_b": float(one.mean_b),
        "difference": float(one.difference),
        "task_dir_a": " ".join(_placed(report.a.by_task.get(one.task, ()), report.a)),
        "task_dir_b": " ".join(_placed(report.b.by_task.get(one.task, ()), report.b)),
    }


def _placed(rows: Sequence[Row], side: Side) -> list[str]:
    """Folders of attempts, from where the run directory was named."""
    return [str(side.folder / row.task_dir) for row in rows] if side.folder else []
