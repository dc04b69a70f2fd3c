"""`ab report compare`: leaderboard, adjusted pairwise differences, best set and cost-quality front of several methods."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.report import command
from agentbench.core.errors import InputError
from agentbench.record.schema import Cost, PhaseCosts
from agentbench.statistics.multiple import holm
from agentbench.statistics.paired import mcnemar_mid_p
from tests.reports.runs import record, run_dir

TASKS = 20
PASSED = {"strong": 19, "close": 17, "weak": 6, "idle": 0}
PRICES = {"strong": 3.0, "close": 1.0, "weak": 2.0, "idle": 0.5}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(command, ["compare", *map(str, arguments)])


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four methods; each passes the first tasks, so that weaker ones pass a subset."""
    file = tmp_path_factory.mktemp("results") / "all.csv"
    lines = ["task,method,repeat,outcome,cost"]
    for method, passed in PASSED.items():
        lines += [f"t{n:02},{method},1,{'pass' if n < passed else 'fail'},{PRICES[method]}" for n in range(TASKS)]
    lines.append("extra,strong,1,pass,3.0")
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def data(results: Path) -> Any:
    return json.loads(invoke(results, "--strengths", "--json").output)


def test_methods_are_ranked_on_common_tasks(data: Any) -> None:
    assert [method["name"] for method in data["methods"]] == ["strong", "close", "weak", "idle"]
    assert [method["rate"]["count"] for method in data["methods"]] == list(PASSED.values())
    assert (len(data["tasks"]), data["left_out"]) == (TASKS, ["extra"])


def test_p_values_are_adjusted_over_all_pairs(data: Any) -> None:
    names = list(PASSED)
    pairs = [(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
    raw = [mcnemar_mid_p(PASSED[a] - PASSED[b], 0) for a, b in pairs]
    assert [(pair["a"], pair["b"]) for pair in data["pairs"]] == pairs
    assert [pair["p_value"] for pair in data["pairs"]] == pytest.approx(raw)
    assert [pair["adjusted_p_value"] for pair in data["pairs"]] == pytest.approx(holm(raw))


def test_best_set_front_and_strengths(data: Any) -> None:
    assert data["best_set"] == ["strong", "close"]
    assert data["front"] == ["idle", "close", "strong"]
    strengths = [method["strength"] for method in data["methods"]]
    assert strengths == sorted(strengths, reverse=True)
    assert data["decision"].startswith(
        "BEST SET: strong, close; 2 of 4 methods are significantly worse (20 tasks, Holm over 6 pairs"
    )


def test_markdown_and_csv_have_every_method(results: Path) -> None:
    text = invoke(results).output
    assert "| `close` | 85.0% |" in text
    assert "**+65.0 points, p = 0.000" in text
    assert "-0.0 points" not in text
    rows = invoke(results, "--format", "csv").output.splitlines()
    assert [row.split(",")[0] for row in rows] == ["method", *PASSED]


def test_plot_is_drawn_with_every_method(results: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    drawn = invoke(results, "--plot", plot)
    assert (drawn.exit_code, drawn.stderr) == (0, f"plot: {plot}\n")
    root = ET.fromstring(plot.read_text())  # noqa: S314 - a file of our own
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == len(PASSED)
    assert sum(circle.get("class") == "point best" for circle in circles) == 2


def test_rates_of_unequal_repeats_fit_pairwise_and_paired_differences(tmp_path: Path) -> None:
    file = tmp_path / "uneven.csv"
    outcomes = {"uneven": {"x": "110", "y": "1", "z": "00"}, "even": {"x": "11", "y": "11", "z": "11"}}
    lines = [
        f"{task},{method},{repeat},{'pass' if outcome == '1' else 'fail'}"
        for method, tasks in outcomes.items()
        for task, ended in tasks.items()
        for repeat, outcome in enumerate(ended, 1)
    ]
    file.write_text("\n".join(["task,method,repeat,outcome", *lines]) + "\n")
    data = json.loads(invoke(file, "--json").output)
    even, uneven = (method["rate"] for method in data["methods"])
    (pair,) = data["pairs"]
    paired = ["paired", "--run-a", f"{file}#even", "--run-b", f"{file}#uneven", "--format", "json"]
    share = json.loads(CliRunner().invoke(command, paired).output)["comparisons"]["contract"]["share_b"]
    assert uneven["share"] == pytest.approx(5 / 9) == pytest.approx(share)
    assert (uneven["count"], uneven["total"]) == (3, 6)
    assert uneven["share"] - even["share"] == pytest.approx(pair["difference"])
    assert uneven["interval"]["low"] < 5 / 9 < uneven["interval"]["high"]
    text = invoke(file).output
    assert "| `uneven` | 55.6% |" in text
    assert "3 of 6" in text
    assert "Rates are means over tasks" in text


def test_runs_with_one_name_are_told_apart(tmp_path: Path) -> None:
    runs = [
        run_dir(tmp_path / name, [record(f"t{n}", kind, variant="agent", cost=Cost(total=1.0)) for n in range(4)])
        for name, kind in (("first", "pass"), ("second", "fail"), ("third", "fail"))
    ]
    data = json.loads(invoke(*runs, "--json").output)
    assert [method["name"] for method in data["methods"]] == ["agent [first]", "agent [second]", "agent [third]"]
    assert data["best_set"] == ["agent [first]", "agent [second]", "agent [third]"]
    assert data["decision"].startswith("INCONCLUSIVE")


def test_front_does_not_depend_on_who_paid_for_setup(tmp_path: Path) -> None:
    def method(name: str, kind: str, agent: float, setup: float) -> Path:
        phases = PhaseCosts(setup=setup, agent=agent, acceptance=3.0)
        cost = Cost(total=agent + setup + 3.0, method_id="prices", phases=phases)
        return run_dir(tmp_path / name, [record(f"t{n}", kind, variant=name, cost=cost) for n in range(4)])

    runs = method("cheap", "pass", 1.0, 9.0), method("dear", "fail", 2.0, 0.0)
    data = json.loads(invoke(*runs, "--json").output)
    assert (data["front"], data["cost_basis"]) == (["cheap"], "without setup and grading")
    assert [line["cost_per_attempt"] for line in data["methods"]] == [1.0, 2.0]
    assert "cost per attempt (usd, without setup and grading)" in invoke(*runs).output


def test_report_says_why_costs_cannot_be_compared(tmp_path: Path) -> None:
    def method(name: str, *costs: Cost) -> Path:
        return run_dir(tmp_path / name, [record(f"t{n}", variant=name, cost=cost) for n, cost in enumerate(costs)])

    usd = method("priced", *[Cost(total=1.0, method_id="prices")] * 2)
    tokens = method("counted", *[Cost(total=90.0, unit="tokens", method_id="abstract")] * 2)
    partly = method("partly", Cost(total=1.0, method_id="prices"), Cost(method_id=None))
    units = invoke(usd, tokens).output
    assert "There is no front: the costs have different units: priced usd, counted tokens." in units
    assert "| not comparable (usd) |" in units
    assert "| not comparable (tokens) |" in units
    unknown = invoke(usd, partly).output
    assert "| unknown |" in unknown
    assert "There is no front: partly: the cost of 1 attempt is unknown." in unknown
    assert "different units: priced usd" in str(invoke(usd, tokens, "--plot", tmp_path / "plot.svg").exception)
    paired = CliRunner().invoke(command, ["paired", str(usd), str(tokens)]).output
    assert "Total cost: not comparable; the costs have different units: A usd, B tokens." in paired


def test_run_given_twice_and_missing_common_tasks_are_refused(tmp_path: Path) -> None:
    one = run_dir(tmp_path / "one", [record("x", "pass")])
    other = run_dir(tmp_path / "other", [record("y", "pass")])
    invalid = run_dir(tmp_path / "invalid", [record("x", "harness")])
    for arguments, message in [
        ((one, one), "is given twice"),
        ((one,), "expected 2 to 50 methods, got 1"),
        ((one, other), "no task has an attempt that counts from every method"),
        ((one, invalid), "no task has an attempt that counts from every method"),
    ]:
        error = invoke(*arguments).exception
        assert isinstance(error, InputError)
        assert message in error.message
