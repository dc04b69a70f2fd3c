"""The cost projection: a model computed from assumptions before anything runs. It is never a record of spending.

`cost_inputs.json` has the assumptions, `cost_projection.csv` what follows from them for every stage and method. Prices of the
model are part of the inputs; the price table that budgets are enforced with is another file.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.pilot.design.pilot_file import STAGES, CostInputs, PilotFile
from agentbench.pilot.design.plan import PlanLine

BASIS = "model"
"""Marks every row as projected, not spent."""
HEADER = (
    "stage", "method", "attempts", "lm", "exec", "human", "overhead", "expected", "low", "high", "cumulative_expected", "basis",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AttemptCost:
    """Projected cost of one attempt by component."""

    lm: float
    exec: float
    human: float
    overhead: float

    @property
    def total(self) -> float:
        return self.lm + self.exec + self.human + self.overhead


@dataclass(frozen=True, slots=True)
class ProjectedRow:
    """Projected cost of all attempts of one method in one stage."""

    stage: str
    method: str
    attempts: int
    each: AttemptCost
    cumulative: float


@dataclass(frozen=True, slots=True)
class Projection:
    inputs: CostInputs
    rows: tuple[ProjectedRow, ...]
    minutes: Mapping[str, float]
    """Work of people for one attempt, by method; methods without any are left out."""

    @property
    def total(self) -> float:
        return self.rows[-1].cumulative if self.rows else 0.0


def attempt_cost(inputs: CostInputs, *, uses_model: bool, minutes: float = 0.0) -> AttemptCost:
    """Project one attempt. `minutes` are those that people need to make its patch, besides the review."""
    prices = inputs.prices
    tokens = inputs.prompt_tokens * prices.prompt_1m + inputs.completion_tokens * prices.completion_1m
    return AttemptCost(
        lm=tokens / 1e6 if uses_model else 0.0,
        exec=inputs.exec_minutes / 60 * prices.exec_hour,
        human=(inputs.review_minutes + minutes) / 60 * prices.review_hour,
        overhead=inputs.overhead,
    )


def project_costs(pilot: PilotFile, lines: Sequence[PlanLine]) -> Projection:
    """Project the cost of a plan. Only methods under test use a model."""
    counts = Counter((line.stage, line.method) for line in lines)
    tested = {entry.label for entry in pilot.methods}
    minutes = {entry.label: entry.minutes for entry in pilot.entries if entry.minutes}
    rows: list[ProjectedRow] = []
    cumulative = 0.0
    for stage in STAGES:
        for method in pilot.names:
            each = attempt_cost(pilot.cost_inputs, uses_model=method in tested, minutes=minutes.get(method, 0.0))
            cumulative += counts[stage, method] * each.total
            rows.append(ProjectedRow(stage, method, counts[stage, method], each, cumulative))
    return Projection(pilot.cost_inputs, tuple(rows), minutes)


def inputs_json(projection: Projection) -> dict[str, Json]:
    """Return the content of `cost_inputs.json`."""
    return {
        "basis": BASIS,
        "note": "Assumptions about one attempt. The projection is a model, not a record of spending.",
        **projection.inputs.model_dump(mode="json"),
        **({"method_minutes": dict(projection.minutes)} if projection.minutes else {}),
    }


def projection_text(projection: Projection) -> str:
    """Return the content of `cost_projection.csv`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for row in projection.rows:
        expected = row.attempts * row.each.total
        costs = (row.attempts * part for part in (row.each.lm, row.each.exec, row.each.human, row.each.overhead))
        bounds = (expected, expected * projection.inputs.low, expected * projection.inputs.high, row.cumulative)
        numbers = (f"{number:.6f}" for number in (*costs, *bounds))
        writer.writerow([row.stage, row.method, row.attempts, *numbers, BASIS])
    return out.getvalue()
