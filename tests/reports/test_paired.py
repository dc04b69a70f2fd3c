from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentbench.cli.report import command
from agentbench.core.errors import ContractError, InputError
from agentbench.core.reasons import Observability
from agentbench.reports.csv_results import OUTCOMES, read_results
from agentbench.reports.paired import compare_sides
from agentbench.reports.sources import open_side, open_sides
from tests.reports.runs import HOSTILE, record, results_csv, run_dir

pytestmark = pytest.mark.synthetic


def paired(*args: str | Path) -> Result:
    return CliRunner().invoke(command, ["paired", *map(str, args)])


def text_of(*args: str | Path) -> str:
    result = paired(*args)
    assert result.exception is None, result.exception
    return result.output


def error_of(*args: str | Path) -> InputError:
    error = paired(*args).exception
    assert isinstance(error, InputError)
    return error


def side(folder: Path, outcomes: str, variant: str, **more: Any) -> Path:
    records = [
        record(f"t{n}", "pass" if outcome == "+" else "fail", variant=variant, **more)
        for n, outcome in enumerate(outcomes)
    ]
    return run_dir(folder / variant, records)


@pytest.fixture
def swept(tmp_path: Path) -> tuple[Path, Path]:
    return side(tmp_path, "------+", "base"), side(tmp_path, "+++++++", "better")


# --- run directories
# ----------------------------------------------------------------------------------------------------


@pytest.mark.req("A-02", "U-01")
def test_level_of_an_attempt_outside_the_rates_is_not_compared(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("a"), record("b")])
    for kind, remarks in (("harness", 0), ("fail", 1)):
        b = run_dir(tmp_path / kind, [record("a"), record("b", kind, observability=Observability.PROCESS)])
        assert len(compare_sides(open_side(str(a)), open_side(str(b))).comparability.remarks) == remarks


def test_first_line_has_decision_effect_interval_and_p_value(swept: tuple[Path, Path]) -> None:
    first, *rest = text_of("--run-a", swept[0], "--run-b", swept[1], "--method", "mcnemar").splitlines()
    assert first.startswith("# B IS BETTER: better − base = +85.7 points (95% CI +")
    assert "p = 0.0156 (McNemar mid-p), 7 tasks. Underpowered: " in first
    assert "| **A did not pass** | 6 | 0 |" in rest
    swapped = text_of("--run-a", swept[1], "--run-b", swept[0])
    assert swapped.startswith("# A IS BETTER: base − better = -85.7 points")


@pytest.mark.req("A-02", "E-14")
def test_comparability_precedes_the_rates(swept: tuple[Path, Path]) -> None:
    text = text_of("--run-a", swept[0], "--run-b", swept[1])
    assert text.index("## Comparability") < text.index("## Rates")
    assert "same contracts, configuration class, seeds and harness version" in text


@pytest.mark.req("A-02")
def test_differing_tasks_are_linked_to_their_evidence(swept: tuple[Path, Path]) -> None:
    text = text_of("--run-a", swept[0], "--run-b", swept[1])
    rows = [line for line in text.splitlines() if line.startswith("| `t")]
    assert len(rows) == 6
    assert f"[`FAIL TESTS_FAILED: 2 of 14 required tests`]({swept[0]}/tasks/t0)" in rows[0]
    assert f"({swept[1]}/tasks/t0)" in rows[0]


@pytest.mark.req("A-02")
def test_json_and_csv_have_the_same_comparison(swept: tuple[Path, Path]) -> None:
    data = json.loads(text_of("--run-a", swept[0], "--run-b", swept[1], "--format", "json"))
    contract = data["comparisons"]["contract"]
    assert data["better"] == "B"
    assert contract["contingency"] == {"both": 1, "only_a": 0, "only_b": 6, "neither": 0}
    assert contract["mcnemar_exact"] == 0.03125
    assert contract["mcnemar_mid_p"] == 0.015625
    assert data["flips"][0]["task_dirs_a"] == [str(swept[0] / "tasks/t0")]
    rows = list(csv.DictReader(io.StringIO(text_of("--run-a", swept[0], "--run-b", swept[1], "--format", "csv"))))
    assert [float(row["difference"]) for row in rows] == [1, 1, 1, 1, 1, 1, 0]


@pytest.mark.req("A-02")
def test_note_when_only_mid_p_is_significant(tmp_path: Path) -> None:
    five = text_of("--run-a", side(tmp_path, "-----", "a"), "--run-b", side(tmp_path, "+++++", "b"))
    assert five.startswith("# B IS BETTER")
    assert "the more conservative exact test is not" in five


@pytest.mark.req("A-02")
def test_rate_option_selects_the_deciding_rate(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record(f"t{n}", "policy") for n in range(6)])
    b = run_dir(tmp_path / "b", [record(f"t{n}") for n in range(6)])
    assert text_of("--run-a", a, "--run-b", b).startswith("# B IS BETTER")
    assert text_of("--run-a", a, "--run-b", b, "--rate", "acceptance").startswith("# INCONCLUSIVE")


@pytest.mark.req("C-11", "E-14")
def test_contract_versions_need_an_option_and_a_label(tmp_path: Path) -> None:
    a, b = side(tmp_path, "++", "a"), side(tmp_path, "+-", "b", contract_id="sha256:other")
    error = error_of("--run-a", a, "--run-b", b)
    assert "t0, t1" in error.message
    assert "--across-versions" in error.remedy
    text = text_of("--run-a", a, "--run-b", b, "--across-versions")
    assert "[ACROSS CONTRACT VERSIONS]" in text.splitlines()[0]
    assert "Different contract versions" in text


@pytest.mark.req("E-14", "R-11c")
def test_differences_and_seeds_make_a_comparison_provisional(tmp_path: Path) -> None:
    a = side(tmp_path, "+-", "a")
    b = side(tmp_path, "++", "b", config_class="sha256:z", harness_version="0.2.0", seed=1337)
    text = text_of("--run-a", a, "--run-b", b)
    assert "[PROVISIONAL]" in text.splitlines()[0]
    assert "0.1.0 and 0.2.0" in text
    assert "configuration class" in text
    assert "1337" in text


@pytest.mark.req("A-02")
def test_repeats_use_the_sign_flip_test(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record(f"t{n}", "fail", repeat) for n in range(6) for repeat in (1, 2)])
    b = run_dir(
        tmp_path / "b", [record(f"t{n}", "pass", repeat) for n in range(6) for repeat in (1, 2, 3)[: 2 + (n == 0)]]
    )
    text = text_of("--run-a", a, "--run-b", b)
    assert text.startswith("# B IS BETTER")
    assert "p = 0.0312 (sign-flip test)" in text.splitlines()[0]
    assert "McNemar's test needs one attempt per task" in text
    assert "different numbers of counted attempts at 1 task" in text


@pytest.mark.req("A-02")
def test_incomparable_runs_are_rejected(tmp_path: Path) -> None:
    some = run_dir(tmp_path / "some", [record("x")])
    assert (
        "no task in common" in error_of("--run-a", some, "--run-b", run_dir(tmp_path / "other", [record("y")])).message
    )
    assert "no finished attempts" in error_of("--run-a", some, "--run-b", run_dir(tmp_path / "none", [])).message
    invalid = run_dir(tmp_path / "invalid", [record("x", "harness")])
    assert "only invalid attempts" in error_of("--run-a", some, "--run-b", invalid).message
    assert "does not exist" in error_of("--run-a", some, "--run-b", tmp_path / "nowhere").message
    two = run_dir(tmp_path / "two", [record("x"), record("y", variant="second")])
    assert "several variants" in error_of("--run-a", some, "--run-b", two).message


@pytest.mark.req("A-02", "G-16")
def test_excluded_tasks_are_listed_and_safety_stops_count(tmp_path: Path) -> None:
    a = run_dir(tmp_path / "a", [record("x"), record("y"), record("z"), record("only-a")])
    b = run_dir(tmp_path / "b", [record("x"), record("y", "harness"), record("z", "safety")])
    report = compare_sides(open_side(str(a)), open_side(str(b)))
    assert [pair.task for pair in report.comparison.pairing.pairs] == ["x", "z"]
    assert [flip.task for flip in report.flips] == ["z"]
    text = text_of("--run-a", a, "--run-b", b)
    assert "1 task run only by A: `only-a`" in text
    assert "only invalid attempts: `y`" in text


def test_hostile_text_stays_inside_its_cell(tmp_path: Path) -> None:
    bad = record(
        "t0",
        "task",
        variant=HOSTILE,
        termination={"code": "setup_failed", "rationale": HOSTILE},
        invalid_cause="safety",
    )
    text = text_of("--run-a", run_dir(tmp_path / "a", [bad]), "--run-b", run_dir(tmp_path / "b", [record("t0")]))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not any(line.startswith("# PASS") for line in text.splitlines())
    (row,) = (line for line in text.splitlines() if line.startswith("| `t0`"))
    assert row.replace("\\|", "").count("|") == 5


# --- CSV
# ----------------------------------------------------------------------------------------------------------------


@pytest.mark.req("U-04")
def test_csv_results_are_compared_like_runs(tmp_path: Path) -> None:
    a = results_csv(tmp_path / "a.csv", "".join(f"t{n},a,1,fail,0.1\n" for n in range(6)))
    b = results_csv(tmp_path / "b.csv", "".join(f"t{n},b,1,pass,0.2\n" for n in range(6)))
    data = json.loads(text_of("--run-a", a, "--run-b", b, "--json"))
    assert data["better"] == "B"
    assert data["comparisons"]["contract"]["mcnemar_exact"] == 0.03125
    assert (data["a"]["cost"], data["b"]["cost"]) == (pytest.approx(0.6), pytest.approx(1.2))
    assert data["comparability"]["unknown"]
    assert "Results from a CSV file" in text_of("--run-a", a, "--run-b", b)


@pytest.mark.req("U-04")
def test_csv_method_is_selected_by_name(tmp_path: Path) -> None:
    file = results_csv(tmp_path / "all.csv", "t,one,1,pass,\nt,two,1,fail,\n")
    a, b = open_sides(str(file), str(file))
    assert (a.name, b.name) == ("one", "two")
    assert open_side(f"{file}#two").trials[0].passed is False
    three = results_csv(tmp_path / "three.csv", "t,one,1,pass,\nt,two,1,fail,\nt,three,1,fail,\n")
    assert "several methods; available: one, two, three" in error_of("--run-a", three, "--run-b", three).message
    assert "no method 'four'" in error_of("--run-a", f"{three}#four", "--run-b", f"{three}#two").message


@pytest.mark.req("U-04")
@pytest.mark.parametrize("word", [*OUTCOMES, "PASS", " Fail "])
def test_every_outcome_word_is_accepted(tmp_path: Path, word: str) -> None:
    (trials,) = read_results(results_csv(tmp_path / "r.csv", f"t,m,1,{word},\n")).values()
    assert (trials[0].status, trials[0].passed, trials[0].invalid_cause) == OUTCOMES[word.strip().lower()]


@pytest.mark.req("U-04")
def test_every_problem_of_a_csv_file_has_its_line(tmp_path: Path) -> None:
    file = results_csv(
        tmp_path / "bad.csv",
        "t,m,1,pass,\nt,m,1,fail,\n,m,1,pass,\nu,m,zero,pass,\nu,m,0,pass,\nv,m,1,maybe,\nw,m,1,pass,-3\nx,m,1,pass,nan\ny,m,1,pass,1,2\nz,m\n",
    )
    with pytest.raises(ContractError) as caught:
        read_results(file)
    lines = {problem.split(":")[1] for problem in caught.value.problems}
    assert lines == {"3", "4", "5", "6", "7", "8", "9", "10", "11"}
    assert "already on line 2" in caught.value.problems[0]


@pytest.mark.req("U-04")
@pytest.mark.parametrize(
    "data,words",
    [
        (b"task,method,outcome\nt,m,pass\n", "missing column repeat"),
        (b"", "missing column task, method, repeat, outcome"),
        (b"task,method,repeat,outcome,task\n", "duplicate column"),
        (b"task,method,repeat,outcome\n\xff\xfe,m,1,pass\n", "UTF-8"),
        (b'task,method,repeat,outcome\n"t,m,1,pass\n', "CSV"),
        (b"task,method,repeat,outcome\n", "no results"),
    ],
    ids=["column missing", "empty", "column twice", "not UTF-8", "open quote", "only a header"],
)
def test_invalid_csv_file_is_rejected(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "f.csv"
    file.write_bytes(data)
    assert words in error_of("--run-a", file, "--run-b", file).message


@pytest.mark.req("U-04")
def test_byte_order_mark_spaces_and_extra_columns_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_bytes("\ufeffTask, Method ,repeat,outcome,note\r\nt,m,2,pass,hello\r\n".encode())
    (trials,) = read_results(file).values()
    assert (trials[0].task, trials[0].repeat, trials[0].cost) == ("t", 2, None)
