"""`audit.csv` (one line per attempt) and `rubric.csv` (one line per final attempt, from the published template)."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from agentbench.core.reasons import Gate
from agentbench.pilot.design.plan import PlanLine
from agentbench.pilot.pilot_state import PilotState
from agentbench.record.schema import AttemptRecord
from agentbench.reports.adjudications import Adjudication
from agentbench.reports.csv_results import joined_deviations
from agentbench.reports.escape import Cell, csv_text

TEMPLATE = "rubric_template.csv"
AUDIT_COLUMNS = (
    "order", "stage", "task_id", "stratum", "method", "repeat", "attempt_id", "run_dir", "final", "removed", "run_status",
    "termination", "termination_category", "reason", "prompt_tokens", "completion_tokens", "execution_sec", "wall_sec",
    "tool_calls", "test_cycles", "acceptance", "contract_passed", "cost", "unit", "deviations",
)  # fmt: skip
_GATES = {Gate.G1: "patch_applies", Gate.G2: "builds", Gate.G3: "passes_checks", Gate.G4: "is_safe"}


def audit_text(state: PilotState, deviations: Sequence[str]) -> str:
    """Return the content of `audit.csv`: every attempt in the order of the plan, superseded and removed ones included."""
    rows = []
    for record, run, line in _attempts(state):
        usage = record.usage
        rows.append(
            {
                **_plan_cells(record, line),
                "run_dir": f"runs/{run}",
                "final": record.final,
                "removed": record.task_id in state.removed,
                "run_status": record.run_status,
                "termination": record.termination.code,
                "termination_category": record.termination.category,
                "reason": record.result.failure_reason,
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "execution_sec": round(usage.tool_sec + usage.check_sec, 6),
                "wall_sec": usage.wall_sec,
                "tool_calls": usage.tool_calls,
                "test_cycles": usage.test_cycles,
                "acceptance": record.gates[Gate.G3].outcome,
                "contract_passed": record.result.passed,
                "cost": record.cost.total,
                "unit": record.cost.unit,
                "deviations": joined_deviations(deviations),
            }
        )
    return csv_text(AUDIT_COLUMNS, rows)


def rubric_text(state: PilotState, reviews: Mapping[str, Adjudication], deviations: Sequence[str]) -> str:
    """Return the content of `rubric.csv`."""
    rows = []
    for record, _, line in _attempts(state):
        if not record.final or record.task_id in state.removed:
            continue
        review = reviews.get(record.attempt_id)
        rows.append(
            {
                **_plan_cells(record, line),
                **{name: record.gates[gate].outcome for gate, name in _GATES.items()},
                **record.components.model_dump(),
                "decomposed_score": record.decomposed_score,
                "score": record.score,
                "needs_review": record.needs_review,
                "reviewer": review.reviewer if review else None,
                "review_verdict": review.truth if review else None,
                "review_notes": review.note if review else None,
                "deviations": joined_deviations(deviations),
            }
        )
    return csv_text(rubric_columns(), rows)


@cache
def rubric_columns() -> tuple[str, ...]:
    """Return the columns of the published template."""
    text = files("agentbench.pilot.report").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return tuple(row["column"] for row in csv.DictReader(text.splitlines()))


def _attempts(state: PilotState) -> list[tuple[AttemptRecord, str, PlanLine | None]]:
    lines = {line.key: line for line in state.lines}
    attempts = [
        (record, run, lines.get(record.key)) for run, records in state.records.by_run.items() for record in records
    ]
    return sorted(attempts, key=lambda item: (item[2].order if item[2] else len(lines) + 1, item[0].attempt_id))


def _plan_cells(record: AttemptRecord, line: PlanLine | None) -> dict[str, Cell]:
    return {
        "order": line.order if line else None,
        "stage": line.stage if line else None,
        "task_id": record.task_id,
        "stratum": line.stratum if line else None,
        "method": record.variant,
        "repeat": record.repeat,
        "attempt_id": record.attempt_id,
    }
