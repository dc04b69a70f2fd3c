from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.report import command
from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import TerminationCode
from agentbench.record.schema import Cost, PhaseCosts, TerminationRecord
from agentbench.reports.gate import read_gate
from tests.reports.runs import record, results_csv, run_dir

pytestmark = pytest.mark.synthetic


def paired(a: Path | str, b: Path | str, *more: str) -> Result:
    return CliRunner().invoke(command, ["paired", "--run-a", str(a), "--run-b", str(b), *more])


def gate(folder: Path, text: str) -> str:
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(folder: Path, outcomes: str, *, kinds: tuple[str, str] = ("pass", "fail"), cost: float = 0.5) -> Path:
    """Write a run with one task per character; `+` passes."""
    return run_dir(
        folder, [record(f"t{n:02}", kinds[outcome != "+"], cost={"total": cost}) for n, outcome in enumerate(outcomes)]
    )


@pytest.mark.req("A-03")
@pytest.mark.parametrize(
    "b,exit_code,word",
    [("+" * 20, 0, "HOLDS"), ("+" * 19 + "-", 0, "HOLDS"), ("+" * 17 + "---", 1, "FAILS")],
)
def test_max_drop(tmp_path: Path, b: str, exit_code: int, word: str) -> None:
    result = paired(run(tmp_path / "a", "+" * 20), run(tmp_path / "b", b), "--gate", gate(tmp_path, "max_drop: 0.05"))
    assert result.exit_code == exit_code
    assert result.output.splitlines()[0].startswith(f"GATE {word}: max_drop: contract rate")


@pytest.mark.req("A-03")
@pytest.mark.parametrize(
    "a,b,exit_code,word",
    [
        ("+" * 60, "+" * 60, 0, "HOLDS"),
        ("+" * 6, "+" * 6, 2, "UNDECIDED"),
        ("+" * 60, "-" * 30 + "+" * 30, 1, "FAILS"),
    ],
)
def test_non_inferiority(tmp_path: Path, a: str, b: str, exit_code: int, word: str) -> None:
    rule = "non_inferiority: {margin: 0.1, alpha: 0.05}"
    result = paired(run(tmp_path / "a", a), run(tmp_path / "b", b), "--gate", gate(tmp_path, rule))
    assert result.exit_code == exit_code, result.output
    assert result.output.startswith(f"GATE {word}: non_inferiority")


@pytest.mark.req("A-02", "A-03")
@pytest.mark.parametrize(
    "a,b,margin,decision",
    [
        ("+" * 60, "+" * 60, 0.1, "EQUIVALENT: B − A = +0.0 points (95% CI -6.0 to +6.0)"),
        ("+" * 60, "+" * 60, 0.05, "INCONCLUSIVE"),
        ("+-" * 30, "+" * 60, 0.9, "B IS BETTER"),
        ("+-" * 2, "++" * 2, 0.99, "EQUIVALENT"),
    ],
)
def test_interval_inside_the_margin_is_equivalent(tmp_path: Path, a: str, b: str, margin: float, decision: str) -> None:
    """A significant difference is reported even if it lies inside the margin."""
    rule = gate(tmp_path, f"non_inferiority: {{margin: {margin}}}")
    first, second = run(tmp_path / "a", a), run(tmp_path / "b", b)
    assert paired(first, second, "--gate", rule).output.splitlines()[2].startswith(f"# {decision}")
    assert "EQUIVALENT" not in paired(first, second).output


@pytest.mark.req("A-03")
def test_equal_repeats_still_bound_the_difference(tmp_path: Path) -> None:
    a, b = (run_dir(tmp_path / name, [record(f"t{n}", repeat=k) for n in range(60) for k in (1, 2)]) for name in "ab")
    result = paired(a, b, "--gate", gate(tmp_path, "non_inferiority: {margin: 0.1}"))
    assert result.exit_code == 0, result.output


@pytest.mark.req("A-03")
def test_cost_safety_and_min_pairs(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+" * 8), run(tmp_path / "b", "+" * 8, cost=0.9)
    assert paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 2")).exit_code == 0
    assert paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5")).exit_code == 1
    assert paired(a, b, "--gate", gate(tmp_path, "{max_drop: 0.1, min_pairs: 9}")).exit_code == 2
    unsafe = run(tmp_path / "unsafe", "+" * 7 + "-", kinds=("pass", "safety"))
    result = paired(a, unsafe, "--gate", gate(tmp_path, "{max_drop: 0.5, no_new_safety: true}"))
    assert result.exit_code == 1
    assert "t07" in result.output.splitlines()[0]
    assert (
        paired(
            unsafe,
            run(tmp_path / "again", "+" * 7 + "-", kinds=("pass", "safety")),
            "--gate",
            gate(tmp_path, "no_new_safety: true"),
        ).exit_code
        == 0
    )


@pytest.mark.req("A-03")
def test_unknown_safety_leaves_no_new_safety_undecided(tmp_path: Path) -> None:
    rule = gate(tmp_path, "no_new_safety: true")
    rows = "a,m,1,pass,\nb,m,1,fail,\nc,m,1,invalid:harness,\n"
    a, unknown = results_csv(tmp_path / "a.csv", rows), results_csv(tmp_path / "b.csv", rows)
    result = paired(a, unknown, "--gate", rule)
    assert result.exit_code == 2
    line = "GATE UNDECIDED: no_new_safety: the safety of 2 attempts of B is unknown"
    assert result.output.splitlines()[0] == line
    assert json.loads(paired(a, unknown, "--json").output)["unknown_safety"] == 2
    known = results_csv(tmp_path / "c.csv", rows.replace("b,m,1,fail", "b,m,1,invalid:safety"))
    assert paired(a, known, "--gate", rule).exit_code == 1


@pytest.mark.req("A-03")
def test_no_new_safety_decides_alike_on_a_run_and_its_summary_csv(tmp_path: Path) -> None:
    safe, unsafe = run(tmp_path / "a", "+" * 3), run(tmp_path / "b", "++-", kinds=("pass", "policy"))
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for folder, file in zip((safe, unsafe), files, strict=True):
        file.write_text(CliRunner().invoke(command, ["summary", str(folder), "--format", "csv"]).stdout)
    rule = gate(tmp_path, "no_new_safety: true")
    for a, b in ((safe, unsafe), (files[0], files[1])):
        result = paired(a, b, "--gate", rule)
        assert result.exit_code == 1
        assert "only B has known safety violations at t02" in result.output.splitlines()[0]
        assert paired(b, a, "--gate", rule).exit_code == 0


def test_unknown_word_for_safety_in_a_csv_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("task,method,repeat,outcome,G4\nt,a,1,pass,maybe\nt,b,1,pass,\n")
    result = paired(file, file)
    assert isinstance(result.exception, ContractError)
    assert "r.csv:2: G4: expected pass, fail, error or nothing" in str(result.exception.problems)


@pytest.mark.req("A-03", "U-04")
def test_gate_works_on_csv_results(tmp_path: Path) -> None:
    file = results_csv(
        tmp_path / "r.csv",
        "".join(f"t{n},{m},1,{'pass' if n or m == 'a' else 'fail'},\n" for n in range(10) for m in "ab"),
    )
    result = paired(f"{file}#a", f"{file}#b", "--gate", gate(tmp_path, "{max_drop: 0.05, max_cost_ratio: 2}"))
    assert result.exit_code == 1
    data = json.loads(paired(f"{file}#a", f"{file}#b", "--gate", gate(tmp_path, "max_cost_ratio: 2"), "--json").output)
    assert data["gate"]["verdict"] == "undecided"
    assert data["gate"]["exit_code"] == 2


@pytest.mark.req("A-03")
def test_gate_selects_the_rate(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+" * 10), run(tmp_path / "b", "+" * 5 + "-" * 5, kinds=("pass", "policy"))
    assert paired(a, b, "--gate", gate(tmp_path, "{rate: acceptance, max_drop: 0}")).exit_code == 0
    assert paired(a, b, "--gate", gate(tmp_path, "{rate: contract, max_drop: 0}")).exit_code == 1
    disagree = paired(a, b, "--rate", "contract", "--gate", gate(tmp_path, "{rate: acceptance, max_drop: 0}"))
    assert isinstance(disagree.exception, InputError)


def test_invalid_gate_file_lists_every_problem(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        read_gate(Path(gate(tmp_path, "{max_drop: 7, marge: 1, rate: both}")))
    assert {"max_drop", "marge", "rate"} <= {problem.split(": ")[1] for problem in caught.value.problems}
    for text in ("[]", "", "min_pairs: 3", "max_drop: .nan", "a: [", "max_drop: \x00"):
        with pytest.raises(InputError):
            read_gate(Path(gate(tmp_path, text)))
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        read_gate(tmp_path / "nowhere.yaml")


@pytest.mark.req("A-02", "A-04")
def test_report_has_both_intervals_and_detectable_effect(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+-" * 20), run(tmp_path / "b", "++" * 20)
    text = paired(a, b).output
    assert text.startswith("# B IS BETTER: B − A = +50.0 points")
    assert "Minimum detectable effect: " in text.splitlines()[0]
    assert "bootstrap, clustered by task, 10000 resamples" in text
    data = json.loads(paired(a, b, "--method", "bootstrap", "--json").output)
    assert data["comparisons"]["contract"]["method"] == "bootstrap"
    assert data["better"] == "B"
    few = paired(run(tmp_path / "c", "+-+-"), run(tmp_path / "d", "+++-")).output
    assert "Underpowered: 1 task differs, at least 5 are needed for significance." in few.splitlines()[0]


@pytest.mark.req("A-04")
def test_power_is_reported_with_its_sanity_check() -> None:
    args = ["power", "--tasks", "40", "--repeats", "2", "--rate-a", "0.4", "--rate-b", "0.7", "--correlation", "0.2"]
    text = CliRunner().invoke(command, args).output
    assert text.startswith("SUFFICIENT: ")
    assert "Simulated with an assumed correlation" in text
    assert "Sanity check passed: power does not drop with more tasks, more repeats" in text
    single = CliRunner().invoke(command, [*args[:3], "--repeats", "1", *args[5:]]).output
    assert "Sanity check passed: power does not drop with more tasks or a larger effect. From 2 attempts" in single
    data = json.loads(
        CliRunner().invoke(command, [*args[:-4], "--rate-b", "0.42", "--correlation", "0.2", "--json"]).output
    )
    assert data["power"] < 0.5
    assert data["problems"] == []


@pytest.mark.req("A-03")
def test_incomparable_runs_leave_the_gate_undecided(tmp_path: Path) -> None:
    rule = gate(tmp_path, "max_drop: 0")
    full, empty = run(tmp_path / "a", "++"), run_dir(tmp_path / "empty", [])
    other = run_dir(tmp_path / "other", [record("t00", contract_id="sha256:other")])
    for b, why in ((empty, "has no finished attempts"), (other, "contract of 1 task differs")):
        result = paired(full, b, "--gate", rule)
        assert isinstance(result.exception, InputError)
        (line,) = result.stdout.splitlines()
        assert line.startswith("GATE UNDECIDED: comparison: ")
        assert why in line
        gate_json = json.loads(paired(full, b, "--gate", rule, "--json").stdout)["gate"]
        assert (gate_json["verdict"], gate_json["exit_code"]) == ("undecided", 2)
    assert not paired(full, empty).stdout
    # A mistake of the user is no undecided gate.
    for mistake in ("nowhere", full):
        assert not paired(full, mistake, "--gate", rule, "--json").stdout


@pytest.mark.req("A-03")
def test_every_format_has_the_gate_verdict(tmp_path: Path) -> None:
    a, b, rule = run(tmp_path / "a", "++"), run(tmp_path / "b", "+-"), gate(tmp_path, "max_drop: 0")
    for form in ("md", "csv", "json", "html"):
        result = paired(a, b, "--gate", rule, "--format", form, *(("--out", str(tmp_path / "page")) * (form == "html")))
        assert result.exit_code == 1
        assert "GATE FAILS" in result.output
    assert paired(a, b, "--gate", rule, "--format", "csv").stdout.startswith("task,")


@pytest.mark.req("A-03", "A-07a")
def test_costs_are_compared_over_common_tasks(tmp_path: Path) -> None:
    expensive = [record(f"expensive{n}", cost={"total": 100.0}) for n in range(5)]
    common = [record(f"t{n}", cost={"total": 1.0}) for n in range(4)]
    a = run_dir(tmp_path / "a", [*common, *expensive])
    twice = [record(f"t{n}", repeat=k, cost={"total": 2.0}) for n in range(4) for k in (1, 2)]
    b = run_dir(tmp_path / "b", twice)
    result = paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5"))
    assert result.exit_code == 1
    assert "an attempt of B costs 2.00 times as much (A 1, B 2 usd), maximum 1.5" in result.output
    report = json.loads(paired(a, b, "--json").output)
    assert report["cost_per_attempt"] == {"a": 1.0, "b": 2.0}
    assert report["cost_unit"] == "usd"
    unknown = results_csv(tmp_path / "x.csv", "t0,x,1,pass,\nt1,x,1,pass,3\n")
    assert paired(a, unknown, "--gate", gate(tmp_path, "max_cost_ratio: 1.5")).exit_code == 2


@pytest.mark.req("A-03", "A-07a")
def test_costs_leave_out_tasks_that_the_comparison_leaves_out(tmp_path: Path) -> None:
    """At `t0` one side has only invalid attempts, so the comparison has no pair for it."""
    a = run_dir(tmp_path / "a", [record("t0", "harness", cost={"total": 100.0}), record("t1", cost={"total": 1.0})])
    b = run_dir(tmp_path / "b", [record(f"t{n}", cost={"total": 2.0}) for n in range(2)])
    assert "per attempt at the compared tasks: A 1, B 2" in paired(a, b).output
    assert paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5")).exit_code == 1


def phases(**costs: float) -> Cost:
    split = {"setup": 0.0, "agent": 0.0, "review": 0.0, "acceptance": 0.0, "judge": 0.0, "storage": 0.0, **costs}
    human, judge = split["review"], split["judge"]
    return Cost(total=sum(split.values()), human=human, judge=judge, method_id="prices", phases=PhaseCosts(**split))


@pytest.mark.req("A-03", "A-07a")
def test_attempts_that_never_started_do_not_lower_the_cost(tmp_path: Path) -> None:
    free = {
        "cost": phases(),
        "termination": TerminationRecord(code=TerminationCode.TOTAL_BUDGET, rationale="not started"),
    }
    full = [record(f"t{n}", repeat=k, cost=phases(agent=1.0, setup=0.1)) for n in range(4) for k in (1, 2)]
    setup_only = {"cost": phases(setup=0.1)}
    half = [
        *(record(f"t{n}", cost=phases(agent=1.0, setup=0.1)) for n in range(4)),
        *(record(f"t{n}", "operator", 2, **free) for n in range(2)),
        *(record(f"t{n}", "task", 2, **setup_only) for n in range(2, 4)),
    ]
    a, b = run_dir(tmp_path / "a", half), run_dir(tmp_path / "b", full)
    result = paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5"))
    assert "an attempt of B costs 1.00 times as much (A 1, B 1 usd without setup and grading)" in result.output
    assert json.loads(paired(a, b, "--json").output)["cost_per_attempt"] == {"a": 1.1, "b": 1.1}
    file = results_csv(tmp_path / "x.csv", "t0,x,1,pass,3\nt0,x,2,invalid:operator,0\nt0,y,1,pass,3\nt0,y,2,pass,3\n")
    csv_costs = json.loads(paired(f"{file}#x", f"{file}#y", "--json").output)["cost_per_attempt"]
    assert csv_costs == {"a": 3.0, "b": 3.0}


@pytest.mark.req("A-03", "A-04")
@pytest.mark.parametrize("split", [True, False])
def test_judging_and_reviewing_are_not_costs_of_the_agent(tmp_path: Path, *, split: bool) -> None:
    def priced(folder: str, **more: float) -> Path:
        cost = phases(agent=1.0, acceptance=0.5, **more)
        cost = cost if split else cost.model_copy(update={"phases": None})
        return run_dir(tmp_path / folder, [record(f"t{n}", cost=cost) for n in range(4)])

    plain, judged = priced("a"), priced("b", judge=3.0, review=2.0)
    result = paired(plain, judged, "--gate", gate(tmp_path, "max_cost_ratio: 1.1"))
    assert result.exit_code == 0, result.output
    basis = "(A 1, B 1 usd without setup, grading, judging and reviewing)"
    assert (basis if split else "(A 1.5, B 1.5 usd without judging and reviewing)") in result.output
    line = "Total cost: A 6, B 26 `usd`; per attempt at the compared tasks without judging and reviewing: A 1.5, B 1.5."
    assert line in result.output
    judged_only = paired(plain, priced("c", judge=3.0), "--gate", gate(tmp_path, "max_cost_ratio: 1.1")).output
    assert ("without setup, grading and judging)" if split else "usd without judging)") in judged_only


@pytest.mark.req("A-04")
def test_cost_ratio_does_not_depend_on_who_paid_for_setup(tmp_path: Path) -> None:
    def prepared(folder: str, setup: float) -> Path:
        phases = {"setup": setup, "agent": 0.1, "review": 0.0, "acceptance": 0.2, "judge": 0.0, "storage": 0.0}
        cost = {"total": 0.3 + setup, "phases": phases}
        return run_dir(tmp_path / folder, [record(f"t{n}", cost=cost) for n in range(4)])

    result = paired(prepared("warm", 0.0), prepared("cold", 5.0), "--gate", gate(tmp_path, "max_cost_ratio: 1.5"))
    assert result.exit_code == 0
    assert "costs 1.00 times as much (A 0.1, B 0.1 usd without setup and grading)" in result.output


@pytest.mark.req("A-04")
def test_seconds_of_grading_do_not_count_in_the_cost_ratio(tmp_path: Path) -> None:
    def graded(folder: str, acceptance: float, agent: float = 0.1) -> Path:
        phases = {"setup": 0.0, "agent": agent, "review": 0.0, "acceptance": acceptance, "judge": 0.0, "storage": 0.0}
        cost = {"total": agent + acceptance, "phases": phases}
        return run_dir(tmp_path / folder, [record(f"t{n}", cost=cost) for n in range(4)])

    rule = gate(tmp_path, "max_cost_ratio: 1.5")
    quiet, loaded, free = graded("quiet", 1.0), graded("loaded", 2.0), graded("free", 1.0, agent=0.0)
    equal = paired(quiet, loaded, "--gate", rule).output
    assert "an attempt of B costs 1.00 times as much (A 0.1, B 0.1 usd without setup and grading)" in equal
    assert paired(quiet, graded("dear", 1.0, agent=0.2), "--gate", rule).exit_code == 1
    assert (
        "an attempt of B costs 1.10 times as much (A 1, B 1.1 usd without setup), maximum"
        in paired(free, quiet, "--gate", rule).output
    )


def test_invalid_design_is_rejected() -> None:
    for bad in (("--rate-a", "nan"), ("--correlation", "nan"), ("--rate-b", "1.5"), ("--seed", "-1"), ("--tasks", "1")):
        options = {"--tasks": "20", "--rate-a": "0.4", "--rate-b": "0.5", bad[0]: bad[1]}
        result = CliRunner().invoke(command, ["power", *(word for pair in options.items() for word in pair)])
        assert isinstance(result.exception, InputError) or result.exit_code == 2, bad


@pytest.mark.req("A-03", "A-07a")
def test_unit_of_csv_costs_is_read_and_compared(tmp_path: Path) -> None:
    rows = [record(f"t{n}", variant="a", cost=Cost(total=1.0, unit="usd")) for n in range(4)]
    run_a, rule = run_dir(tmp_path / "a", rows), gate(tmp_path, "max_cost_ratio: 1.5")

    def csv(name: str, unit: str | None) -> Path:
        head, cell = ("", "") if unit is None else (",cost_unit", f",{unit}")
        lines = [f"task,method,repeat,outcome,cost{head}", *(f"t{n},{name},1,pass,1{cell}" for n in range(4))]
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file

    usd, tokens, unknown, other = csv("usd", "usd"), csv("tokens", "tokens"), csv("unknown", None), csv("empty", "")
    for a, b in ((run_a, usd), (unknown, other)):
        assert paired(a, b, "--gate", rule).exit_code == 0
        assert "Total cost: A 4, B 4" in paired(a, b).output
        assert "not comparable" not in compared(a, b)
    assert "(A 1, B 1 usd)" in paired(run_a, usd, "--gate", rule).output
    assert "(A 1, B 1)" in paired(unknown, other, "--gate", rule).output
    for a, b, units in (
        (run_a, tokens, "A usd, B tokens"),
        (usd, tokens, "A usd, B tokens"),
        (run_a, unknown, "A usd, B unknown unit"),
        (unknown, usd, "A unknown unit, B usd"),
    ):
        result = paired(a, b, "--gate", rule)
        assert result.exit_code == 2, result.output
        assert f"the costs have different units: {units}" in result.output.splitlines()[0]
        assert f"Total cost: not comparable; the costs have different units: {units}." in result.output
        assert json.loads(paired(a, b, "--json").output)["cost_per_attempt"] is None
        assert "There is no front: the costs have different units" in compared(a, b)


def compared(*sides: Path) -> str:
    return CliRunner().invoke(command, ["compare", *map(str, sides)]).output


@pytest.mark.req("A-04")
@pytest.mark.parametrize(
    "repeats,condition",
    [(1, " points if 40.9% of the tasks differ."), (3, " points at the observed spread of the tasks' differences.")],
)
def test_minimum_detectable_effect_names_its_condition(tmp_path: Path, repeats: int, condition: str) -> None:
    lines = [
        f"t{n},{method},{repeat},{'fail' if method == 'a' and n < 8 else 'pass'},"
        for method in "ab"
        for n in range(20)
        for repeat in range(1, repeats + 1)
    ]
    file = results_csv(tmp_path / "r.csv", "\n".join(lines) + "\n")
    first = paired(f"{file}#a", f"{file}#b").output.splitlines()[0]
    assert "inimum detectable effect" in first
    assert first.endswith(condition), first
