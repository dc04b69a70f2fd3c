"""The worked example of examples/pilot, reduced to two tasks and its first stage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.run.conftest import Ab

pytestmark = pytest.mark.end_to_end

EXAMPLE = Path(__file__).parents[2] / "examples" / "pilot"


@pytest.mark.req("L-01", "L-03", "L-05")
def test_example_runs_to_its_report(ab: Ab, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(EXAMPLE, study)
    text = (study / "pilot.yaml").read_text()
    reduced = text.replace("  - name: demo\n", "  - name: demo\n    tasks: [toy-median]\n")
    (study / "pilot.yaml").write_text(reduced.replace("tasks_per_stratum: 2", "tasks_per_stratum: 1"))
    for command in ("plan", "freeze"):
        done = ab("pilot", command, study)
        assert done.code == 0, done.stderr
    ran = ab("pilot", "run", study, "--workers", "2", timeout=600)
    assert ran.code == 0, ran.stdout + ran.stderr
    report = ab("pilot", "report", study)
    assert report.code == 0, report.stderr
    assert "`thorough` | 1 | 1 of 1 | 100.0%" in report.stdout
    assert ab("verify", study).code == 0
