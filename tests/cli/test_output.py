"""What a run prints when it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.cli.output import print_result
from agentbench.run.study import StudyResult
from tests.reports.runs import record, run_dir

pytestmark = pytest.mark.component


def test_attempts_outside_the_rates_are_not_in_the_first_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_dir(
        tmp_path / "run", [record("a", "pass"), record("b", "fail"), record("c", "harness"), record("d", "safety")]
    )
    print_result(StudyResult((run,)), as_json=False)
    assert capsys.readouterr().out.splitlines()[0] == "1 of 3 attempts passed, 1 invalid and in no rate"
