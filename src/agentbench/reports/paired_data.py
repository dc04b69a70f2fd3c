"""A paired comparison as JSON, and its tasks as CSV."""

from __future__ import annotations

from collections.abc import Sequence

from agentbench.core.canonical import Json
from agentbench.reports.csv_results import DEVIATIONS, joined_deviations
from agentbench.reports.escape import Cell, csv_text
from agentbench.reports.json_parts import interval_json, seals_json
from agentbench.reports.number_format import finite
from agentbench.reports.paired import PairedReport
from agentbench.reports.paired_costs import common_unit, cost_of, costs_per_attempt
from agentbench.reports.paired_decision import decision
from agentbench.reports.record_rows import Row
from agentbench.reports.seal_marks import COLUMNS
from agentbench.reports.sequential_text import stopping_json
from agentbench.reports.sources import Side
from agentbench.statistics.intervals import ALPHA
from agentbench.statistics.paired import Comparison, PairedTask


def as_json(report: PairedReport) -> dict[str, Json]:
    comparability, comparison = report.comparability, report.comparison
    unit, per_attempt = common_unit(report), costs_per_attempt(report)
    return {
        "decision": decision(report),
        "better": report.better,
        "alpha": ALPHA,
        "labels": list(report.labels),
        "cannot_detect": report.underpowered,
        "a": _side_json(report.a),
        "b": _side_json(report.b),
        "comparability": {
            "comparable": comparability.comparable,
            "across_versions": list(comparability.across_versions),
            "differences": list(comparability.differences),
            "remarks": list(comparability.remarks),
            "deviations": list(report.deviations),
            "unknown": comparability.unknown,
            "unknown_conditions": list(report.unknown_conditions),
        },
        "cost_unit": unit or None,
        "cost_per_attempt": dict(zip("ab", map(finite, per_attempt.costs), strict=True)) if per_attempt else None,
        "rate": comparison.rate,
        "comparisons": {each.rate: comparison_json(each) for each in (comparison, report.other) if each is not None},
        **({"stopping": stopping_json(report.stopped)} if report.stopped else {}),
        "undecided_bounds": list(report.bounds) if report.bounds else None,
        "new_safety": list(report.new_safety),
        "unknown_safety": report.unknown_safety,
        "unpaired": {
            "only_a": list(comparison.pairing.only_a),
            "only_b": list(comparison.pairing.only_b),
            "uncounted": list(comparison.pairing.uncounted),
        },
        "flips": [
            {
                "task": flip.task,
                "a": flip.mean_a,
                "b": flip.mean_b,
                "why_a": list(flip.headlines_a),
                "why_b": list(flip.headlines_b),
                "task_dirs_a": _task_dirs(flip.rows_a, report.a),
                "task_dirs_b": _task_dirs(flip.rows_b, report.b),
            }
            for flip in report.flips
        ],
    }


def _side_json(side: Side) -> dict[str, Json]:
    return {
        "name": side.name,
        "origin": side.origin,
        "attempts": len(side.trials),
        "cost": finite(cost_of(side)),
        "altered": seals_json(side.run)["altered"]
        if side.run
        else [{"place": side.origin, "attempt_id": None, "why": text} for text in side.stated_marks.altered],
        "incomplete": seals_json(side.run)["incomplete"] if side.run else None,
    }


def comparison_json(comparison: Comparison) -> dict[str, Json]:
    table = comparison.contingency
    return {
        "tasks": len(comparison.pairing.pairs),
        "share_a": comparison.share_a,
        "share_b": comparison.share_b,
        "difference": comparison.difference,
        "interval": interval_json(comparison.interval),
        "contingency": (
            {"both": table.both, "only_a": table.only_a, "only_b": table.only_b, "neither": table.neither}
            if table
            else None
        ),
        "mcnemar_exact": comparison.mcnemar_exact,
        "mcnemar_mid_p": comparison.mcnemar_mid_p,
        "sign_flip": comparison.sign_flip,
        "method": comparison.method,
        "bootstrap": interval_json(comparison.bootstrap),
        "bootstrap_by_repository": interval_json(comparison.by_repository),
        "minimum_detectable_effect": comparison.detectable.effect if comparison.detectable else None,
        "power_curve": [list(point) for point in comparison.power_curve()],
        "notes": list(comparison.notes),
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
    DEVIATIONS,
    *COLUMNS,
)


def as_csv(report: PairedReport) -> str:
    """One row per paired task."""
    of_report = {
        DEVIATIONS: joined_deviations(report.deviations),
        **_seal_cells(report),
    }
    return csv_text(CSV_HEAD, [{**_csv_row(task, report), **of_report} for task in report.comparison.pairing.pairs])


def _csv_row(task: PairedTask, report: PairedReport) -> dict[str, Cell]:
    return {
        "task": task.task,
        "attempts_a": len(task.a),
        "passed_a": sum(task.a),
        "attempts_b": len(task.b),
        "passed_b": sum(task.b),
        "mean_a": float(task.mean_a),
        "mean_b": float(task.mean_b),
        "difference": float(task.difference),
        "task_dir_a": " ".join(_task_dirs(report.a.by_task.get(task.task, ()), report.a)),
        "task_dir_b": " ".join(_task_dirs(report.b.by_task.get(task.task, ()), report.b)),
    }


def _seal_cells(report: PairedReport) -> dict[str, str]:
    sides = {"A": report.a.seal_marks.cells(), "B": report.b.seal_marks.cells()}
    return {
        column: joined_deviations(f"{name}: {cells[column]}" for name, cells in sides.items() if cells[column])
        for column in COLUMNS
    }


def _task_dirs(rows: Sequence[Row], side: Side) -> list[str]:
    """Paths of the attempt folders below the run directory as the user named it."""
    return [str(side.folder / row.task_dir) for row in rows] if side.folder else []
