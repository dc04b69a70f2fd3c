"""The cost projection follows from its inputs, and says that it is a model."""

from __future__ import annotations

import csv
import io

import pytest

from agentbench.pilot.design.cost_figure import LABEL, cost_figure
from agentbench.pilot.design.cost_model import attempt_cost, inputs_json, project_costs, projection_text
from tests.pilot.samples import lines, pilot

pytestmark = [pytest.mark.component, pytest.mark.req("L-07")]

INPUTS = {
    "prompt_tokens": 1_000_000,
    "completion_tokens": 100_000,
    "exec_minutes": 60.0,
    "review_minutes": 30.0,
    "overhead": 0.25,
    "prices": {"prompt_1m": 2.0, "completion_1m": 10.0, "exec_hour": 1.0, "review_hour": 8.0},
}
CONFIG = pilot(cost_inputs=INPUTS)


def test_cost_of_an_attempt_is_the_sum_of_its_components() -> None:
    cost = attempt_cost(CONFIG.cost_inputs, uses_model=True)
    assert (cost.lm, cost.exec, cost.human, cost.overhead, cost.total) == (3.0, 1.0, 4.0, 0.25, 8.25)
    assert attempt_cost(CONFIG.cost_inputs, uses_model=False).total == 5.25


def test_projection_adds_up_all_attempts() -> None:
    projection = project_costs(CONFIG, lines(CONFIG))
    rows = list(csv.DictReader(io.StringIO(projection_text(projection))))
    assert sum(float(row["expected"]) for row in rows) == pytest.approx(16 * 8.25 + 16 * 5.25)
    assert float(rows[-1]["cumulative_expected"]) == pytest.approx(projection.total)
    for row in rows:
        assert float(row["low"]) == pytest.approx(0.5 * float(row["expected"]))
        assert float(row["high"]) == pytest.approx(2 * float(row["expected"]))
    assert {row["basis"] for row in rows} == {"model"}


@pytest.mark.req("L-02")
def test_work_of_people_is_budgeted_as_human_cost() -> None:
    people = pilot(
        cost_inputs=INPUTS,
        baselines=[{"agent": "noop"}, {"name": "people", "patches": "patches", "minutes": 90}],
    )
    projection = project_costs(people, lines(people))
    human = {row.method: row.each.human for row in projection.rows}
    assert (human["people"], human["noop"]) == (16.0, 4.0)
    assert inputs_json(projection)["method_minutes"] == {"people": 90.0}


@pytest.mark.parametrize("budget,shown", [(300.0, True), (100_000.0, False)])
def test_figure_is_labelled_and_shows_a_budget_in_reach(budget: float, shown: bool) -> None:
    svg = cost_figure(project_costs(CONFIG, lines(CONFIG)), budget)
    assert f"<title>{LABEL}</title>" in svg
    assert ('class="budget"' in svg) == shown
