"""The worked example of examples/pilot, reduced to four tasks and its first two stages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.execution.conftest import Ab

pytestmark = pytest.mark.end_to_end

EXAMPLE = Path(__file__).parents[2] / "examples" / "pilot"


@pytest.mark.req("L-01")
def test_whole_example_is_planned_and_frozen(ab: Ab, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(EXAMPLE, study)
    planned = ab("pilot", "plan", study)
    assert planned.stdout.startswith("64 attempts: 8 tasks"), planned.stderr
    frozen = ab("pilot", "freeze", study)
    assert frozen.stdout.startswith("FROZEN: registration 1, "), frozen.stderr


@pytest.mark.slow
@pytest.mark.req("L-01", "L-03", "L-05")
def test_example_runs_to_its_report(ab: Ab, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(EXAMPLE, study)
    text = (study / "pilot.yaml").read_text()
    reduced = re.sub("tasks: \\[.*\\]", "tasks: [toy-median]", text)
    (study / "pilot.yaml").write_text(reduced.replace("tasks_per_stratum: 2", "tasks_per_stratum: 1"))
    for command in ("plan", "freeze"):
        done = ab("pilot", command, study)
        assert done.code == 0, done.stderr
    for stage in ("feasibility", "limited"):
        ran = ab("pilot", "run", study, "--stage", stage, "--workers", "2", timeout=600)
        assert ran.code == 0, ran.stdout + ran.stderr
    # Four tasks are too few for the full stage.
    refused = ab("pilot", "run", study)
    assert (refused.code, "NOT MET power_supported" in refused.stdout) == (1, True), refused.stdout
    report = ab("pilot", "report", study)
    assert report.code == 0, report.stderr
    assert "`thorough` | 4 | 4 of 4 | 0 | 0 | 100.0%" in report.stdout
    assert "`quick` | 4 | 1 of 4 | 0 | 0 | 25.0%" in report.stdout
    assert ab("verify", study).code == 0
