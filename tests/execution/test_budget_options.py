"""`--dry-run` estimates and `--fail-on` conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.cli.fail_on import conditions_met, parse
from agentbench.core.errors import InputError
from agentbench.record.schema import AttemptRecord
from tests.execution.conftest import Ab
from tests.execution.tasks import make_suite
from tests.record.samples import whole_run
from tests.reports.runs import record

pytestmark = pytest.mark.end_to_end


@pytest.mark.req("U-05")
def test_dry_run_estimates_and_runs_nothing(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one", "two")
    arguments = ("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "reference", "--out", tmp_path / "out")
    ran = ab(*arguments, "--dry-run", "--repeats", "3", "--json", "--total-usd", "7")
    assert ran.code == 0, ran.stderr
    assert (ran.json["attempts"], ran.json["tasks"], ran.json["repeats"]) == (6, 2, 3)
    assert ran.json["expected_cost"] is None
    assert ran.json["cost_cap"] == 7
    assert ab(*arguments, "--dry-run", "--repeats", "3", "--json", "--task-usd", "2").json["cost_cap"] == 4
    assert not (tmp_path / "out").exists()
    assert ab(*arguments).code == 0
    known = ab(*arguments, "--dry-run", "--json").json
    assert known["earlier_attempts"] == 2
    assert known["expected_sec"] > 0
    assert known["expected_cost"] > 0
    assert len(list((tmp_path / "out").iterdir())) == 1
    assert "nothing was executed" in ab(*arguments, "--dry-run").stdout


def records(tmp_path: Path) -> list[AttemptRecord]:
    from agentbench.record.run_directory import RunDirectory

    return list(RunDirectory.open(whole_run(tmp_path)).finals())


@pytest.mark.parametrize(
    "text", ["", "x", "pass_rate", "pass_rate<", "pass_rate<x", "passes>1", "TESTS>0", "pass_rate<0.5,", "1>0"]
)
def test_invalid_fail_on_condition_is_rejected(text: str) -> None:
    with pytest.raises(InputError, match="--fail-on"):
        parse(text)


def test_true_conditions_are_named(tmp_path: Path) -> None:
    all_records = records(tmp_path)
    assert all_records
    assert conditions_met(parse(f"attempts!={len(all_records)}, attempts=={len(all_records)}"), all_records) == [
        f"attempts=={len(all_records)} (attempts is {len(all_records)})"
    ]
    both = conditions_met(parse("attempts>0, pass_rate>1, invalid<1"), all_records)
    assert both == [f"attempts>0 (attempts is {len(all_records)})", "invalid<1 (invalid is 0)"]
    assert conditions_met(parse("attempts<0, cost>1000000, SANDBOX_ERROR>1000"), all_records) == []


def test_fail_on_counts_superseded_attempts_in_the_cost_alone() -> None:
    attempts = [record("a", "operator", final=False, attempt_id="old"), record("a", supersedes="old")]
    expected = "cost>0.9 (cost is 1)"
    assert conditions_met(parse("attempts>1, invalid>0, pass_rate<1, cost>0.9"), attempts) == [expected]


def test_rate_without_attempts_is_undecided() -> None:
    with pytest.raises(InputError, match="is undecided"):
        conditions_met(parse("pass_rate<0.5"), [])
    assert conditions_met(parse("pass_rate<0.5, attempts==0"), []) == ["attempts==0 (attempts is 0)"]


def test_true_condition_exits_1(ab: Ab, tmp_path: Path) -> None:
    tasks = make_suite(tmp_path / "tasks", "one")
    arguments = ("run", "--suite", "tiny", "--tasks-dir", tasks, "--agent", "noop", "--out", tmp_path / "out")
    assert ab(*arguments, "--fail-on", "nonsense").code == 2
    assert not (tmp_path / "out").exists()
    ran = ab(*arguments, "--fail-on", "TESTS_FAILED>0")
    assert ran.code == 1
    assert "TESTS_FAILED>0 (TESTS_FAILED is 1)" in ran.stderr
