"""Protocol deviations of a run are in every format of every report that uses its data."""

from __future__ import annotations

import csv
import html
import io
import json
from pathlib import Path

import pytest

from tests.execution.conftest import Ab, ab, shared_state
from tests.execution.tasks import make_task

__all__ = ["ab", "shared_state"]

pytestmark = [pytest.mark.end_to_end, pytest.mark.req("L-06")]

SEED = "used base seed 7; the protocol specifies 20260307"
UNLOCKED = "1 task has no task.lock.json (write it with ab task lock)"


@pytest.fixture
def runs(ab: Ab, tmp_path: Path) -> tuple[Path, Path]:
    task = make_task(tmp_path / "task")
    folders = []
    for agent in ("noop", "reference"):
        ran = ab.run_task(task, "--agent", agent, "--seed", "7")
        folders.append(Path(ran.json["run_dir"]))
    return folders[0], folders[1]


def test_every_report_shows_the_deviations(ab: Ab, runs: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = runs
    weights = tmp_path / "weights.yaml"
    weights.write_text("{minimal: 1, trace: 0, maintainability: 0}\n")
    commands = {
        "summary": ("report", "summary", "--run", a),
        "paired": ("report", "paired", "--run-a", a, "--run-b", b),
        "rescore": ("rescore", a, "--weights", weights),
    }
    formats = {
        "summary": ("md", "csv", "json", "junit"),
        "paired": ("md", "csv", "json"),
        "rescore": ("md", "csv", "json"),
    }
    for name, command in commands.items():
        for form in formats[name]:
            ran = ab(*command, "--format", form)
            assert ran.code == 0, ran.stderr
            for text in (SEED, UNLOCKED):
                assert text in html.unescape(ran.stdout), (name, form)
    for name in ("summary", "paired"):
        page = tmp_path / f"{name}-page"
        assert ab(*commands[name], "--format", "html", "--out", page).code == 0
        content = "".join(file.read_text() for file in page.rglob("*") if file.suffix in {".html", ".js", ".json"})
        assert SEED in content
        assert UNLOCKED in content
    assert "[PROVISIONAL]" in ab(*commands["summary"]).stdout.splitlines()[0]


def test_csv_readers_see_a_column_that_paired_reports_read_back(
    ab: Ab, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    files = []
    for name, run in zip("ab", runs, strict=True):
        text = ab("report", "summary", "--run", run, "--format", "csv").stdout
        (row,) = csv.DictReader(io.StringIO(text))
        assert row["deviations"] == f"this run {SEED} | {UNLOCKED}"
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text(text)
    report = json.loads(ab("report", "paired", "--run-a", files[0], "--run-b", files[1], "--format", "json").stdout)
    assert f"A: this run {SEED}" in report["comparability"]["deviations"]
    assert f"B: {UNLOCKED}" in report["comparability"]["deviations"]


def test_missing_lock_alone_does_not_make_numbers_provisional(ab: Ab, tmp_path: Path) -> None:
    run = ab.run_task(make_task(tmp_path / "task"), "--agent", "noop").json["run_dir"]
    report = json.loads(ab("report", "summary", "--run", run, "--format", "json").stdout)
    assert (report["deviations"], report["provisional"]) == ([UNLOCKED], False)
