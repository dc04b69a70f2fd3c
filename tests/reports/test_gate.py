from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.report import command
from agentbench.core.errors import ContractError, InputError
from agentbench.reports.gate import read_gate
from tests.reports.runs import record, results_csv, run_dir


def paired(a: Path | str, b: Path | str, *more: str) -> Result:
    return CliRunner().invoke(command, ["paired", "--run-a", str(a), "--run-b", str(b), *more])


def gate(folder: Path, text: str) -> str:
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(folder: Path, outcomes: str, *, kinds: tuple[str, str] = ("pass", "fail"), cost: float = 0.5) -> Path:
    """`+` passes, anything else does not, one character per task."""
    return run_dir(
        folder, [record(f"t{n:02}", kinds[one != "+"], cost={"total": cost}) for n, one in enumerate(outcomes)]
    )


@pytest.mark.req("A-03")
@pytest.mark.parametrize(
    "b,exit_code,word",
    [("+" * 20, 0, "HOLDS"), ("+" * 19 + "-", 0, "HOLDS"), ("+" * 17 + "---", 1, "FAILS")],
)
def test_a_drop_within_the_allowed_one_holds(tmp_path: Path, b: str, exit_code: int, word: str) -> None:
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
def test_non_inferiority_holds_fails_or_cannot_be_decided(
    tmp_path: Path, a: str, b: str, exit_code: int, word: str
) -> None:
    rule = "non_inferiority: {margin: 0.1, alpha: 0.05}"
    result = paired(run(tmp_path / "a", a), run(tmp_path / "b", b), "--gate", gate(tmp_path, rule))
    assert result.exit_code == exit_code, result.output
    assert result.output.startswith(f"GATE {word}: non_inferiority")


@pytest.mark.req("A-03")
def test_repeats_that_all_go_alike_still_bound_the_difference(tmp_path: Path) -> None:
    a, b = (run_dir(tmp_path / name, [record(f"t{n}", repeat=k) for n in range(60) for k in (1, 2)]) for name in "ab")
    result = paired(a, b, "--gate", gate(tmp_path, "non_inferiority: {margin: 0.1}"))
    assert result.exit_code == 0, result.output


@pytest.mark.req("A-03")
def test_cost_safety_and_enough_pairs_are_conditions_too(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+" * 8), run(tmp_path / "b", "+" * 8, cost=0.9)
    assert paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 2")).exit_code == 0
    assert paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5")).exit_code == 1
    assert paired(a, b, "--gate", gate(tmp_path, "{max_drop: 0.1, min_pairs: 9}")).exit_code == 2
    unsafe = run(tmp_path / "unsafe", "+" * 7 + "-", kinds=("pass", "safety"))
    result = paired(a, unsafe, "--gate", gate(tmp_path, "{max_drop: 0.5, no_new_safety: true}"))
    assert result.exit_code == 1
    assert "t07" in result.output.splitlines()[0]
    assert paired(unsafe, unsafe, "--gate", gate(tmp_path, "no_new_safety: true")).exit_code == 0


@pytest.mark.req("A-03", "U-04")
def test_the_gate_works_on_results_made_elsewhere(tmp_path: Path) -> None:
    file = results_csv(
        tmp_path / "r.csv",
        "".join(f"t{n},{m},1,{'pass' if n or m == 'a' else 'fail'},\n" for n in range(10) for m in "ab"),
    )
    result = paired(f"{file}#a", f"{file}#b", "--gate", gate(tmp_path, "{max_drop: 0.05, max_cost_ratio: 2}"))
    assert result.exit_code == 1
    found = json.loads(paired(f"{file}#a", f"{file}#b", "--gate", gate(tmp_path, "max_cost_ratio: 2"), "--json").output)
    assert found["gate"]["verdict"] == "undecided"
    assert found["gate"]["exit_code"] == 2


@pytest.mark.req("A-03")
def test_the_rate_of_the_gate_decides(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+" * 10), run(tmp_path / "b", "+" * 5 + "-" * 5, kinds=("pass", "policy"))
    assert paired(a, b, "--gate", gate(tmp_path, "{rate: acceptance, max_drop: 0}")).exit_code == 0
    assert paired(a, b, "--gate", gate(tmp_path, "{rate: contract, max_drop: 0}")).exit_code == 1
    disagree = paired(a, b, "--rate", "contract", "--gate", gate(tmp_path, "{rate: acceptance, max_drop: 0}"))
    assert isinstance(disagree.exception, InputError)


def test_a_gate_that_is_none_is_refused_with_everything_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ContractError) as caught:
        read_gate(Path(gate(tmp_path, "{max_drop: 7, marge: 1, rate: both}")))
    assert {"max_drop", "marge", "rate"} <= {problem.split(": ")[1] for problem in caught.value.problems}
    for text in ("[]", "", "min_pairs: 3", "max_drop: .nan", "a: [", "max_drop: \x00"):
        with pytest.raises(InputError):
            read_gate(Path(gate(tmp_path, text)))
    with pytest.raises(InputError, match="cannot be read"):
        read_gate(tmp_path / "nowhere.yaml")


@pytest.mark.req("A-02", "A-04")
def test_the_report_tells_both_intervals_and_what_could_be_detected(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "+-" * 20), run(tmp_path / "b", "++" * 20)
    text = paired(a, b).output
    assert text.startswith("# B BETTER: B minus A +50.0 points")
    assert "detects" in text.splitlines()[0]
    assert "bootstrap, clustered by task, 10000 resamples" in text
    found = json.loads(paired(a, b, "--method", "bootstrap", "--json").output)
    assert found["comparisons"]["contract"]["method"] == "bootstrap"
    assert found["better"] == "B"
    few = paired(run(tmp_path / "c", "+-+-"), run(tmp_path / "d", "+++-")).output
    assert "cannot detect anything: 1 differs, 5 must" in few.splitlines()[0]


@pytest.mark.req("A-04")
def test_power_of_a_plan_is_told_with_its_sanity_check() -> None:
    args = ["power", "--tasks", "40", "--repeats", "2", "--rate-a", "0.4", "--rate-b", "0.7", "--correlation", "0.2"]
    text = CliRunner().invoke(command, args).output
    assert text.startswith("ENOUGH: power")
    assert "a model, not a measurement" in text
    assert "sane: " in text
    found = json.loads(
        CliRunner().invoke(command, [*args[:-4], "--rate-b", "0.42", "--correlation", "0.2", "--json"]).output
    )
    assert found["power"] < 0.5
    assert found["problems"] == []


@pytest.mark.req("A-03")
def test_runs_that_cannot_be_compared_leave_a_gate_undecided_in_its_own_line(tmp_path: Path) -> None:
    rule = gate(tmp_path, "max_drop: 0")
    full, empty = run(tmp_path / "a", "++"), run_dir(tmp_path / "empty", [])
    other = run_dir(tmp_path / "other", [record("t00", contract_id="sha256:other")])
    for b, why in ((empty, "holds no finished attempt"), (other, "contract of 1 task differs"), ("nowhere", "exist")):
        result = paired(full, b, "--gate", rule)
        assert isinstance(result.exception, InputError)
        (line,) = result.stdout.splitlines()
        assert line.startswith("GATE UNDECIDED: comparison: ")
        assert why in line
        told = json.loads(paired(full, b, "--gate", rule, "--json").stdout)
        assert (told["gate"]["verdict"], told["gate"]["exit_code"]) == ("undecided", 2)
    assert not paired(full, empty).stdout


@pytest.mark.req("A-03")
def test_every_format_tells_the_verdict_of_the_gate(tmp_path: Path) -> None:
    a, b, rule = run(tmp_path / "a", "++"), run(tmp_path / "b", "+-"), gate(tmp_path, "max_drop: 0")
    for form in ("md", "csv", "json", "html"):
        result = paired(a, b, "--gate", rule, "--format", form, *(("--out", str(tmp_path / "page")) * (form == "html")))
        assert result.exit_code == 1
        assert "GATE FAILS" in result.output
    assert paired(a, b, "--gate", rule, "--format", "csv").stdout.startswith("task,")


@pytest.mark.req("A-03", "A-07")
def test_costs_are_compared_over_tasks_both_sides_ran_whatever_else_one_of_them_ran(tmp_path: Path) -> None:
    dear = [record(f"dear{n}", cost={"total": 100.0}) for n in range(5)]
    common = [record(f"t{n}", cost={"total": 1.0}) for n in range(4)]
    a = run_dir(tmp_path / "a", [*common, *dear])
    twice = [record(f"t{n}", repeat=k, cost={"total": 2.0}) for n in range(4) for k in (1, 2)]
    b = run_dir(tmp_path / "b", twice)
    result = paired(a, b, "--gate", gate(tmp_path, "max_cost_ratio: 1.5"))
    assert result.exit_code == 1
    assert "B costs 2.00 times as much per attempt" in result.output
    told = json.loads(paired(a, b, "--json").output)
    assert told["cost_per_attempt"] == {"a": 1.0, "b": 2.0}
    assert told["cost_unit"] == "usd"
    unknown = results_csv(tmp_path / "x.csv", "t0,x,1,pass,\nt1,x,1,pass,3\n")
    assert paired(a, unknown, "--gate", gate(tmp_path, "max_cost_ratio: 1.5")).exit_code == 2


@pytest.mark.req("A-04")
def test_a_plan_that_is_none_is_refused() -> None:
    for bad in (("--rate-a", "nan"), ("--correlation", "nan"), ("--rate-b", "1.5"), ("--seed", "-1"), ("--tasks", "1")):
        options = {"--tasks": "20", "--rate-a": "0.4", "--rate-b": "0.5", bad[0]: bad[1]}
        result = CliRunner().invoke(command, ["power", *(word for pair in options.items() for word in pair)])
        assert isinstance(result.exception, InputError) or result.exit_code == 2, bad
