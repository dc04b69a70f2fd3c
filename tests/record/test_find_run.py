"""A run can be named by its path, its id, a unique prefix, or as the latest."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentbench.core.errors import InputError
from agentbench.record.find_run import find_run, run_directories

NAMES = (
    "2026-03-01T10-00-00+0000__demo__noop__none",
    "2026-03-01T09-30-00-0200__demo__partial__none",  # half past eleven in UTC
    "2026-02-27T12-00-00+0000__mine__noop__none",
)
IDS = ("01KAAA0000000000000000000A", "01KAAB0000000000000000000B", "01KBBB0000000000000000000C")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, run_id in zip(NAMES, IDS, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(json.dumps({"run_id": run_id, "created_at": "2026-01-01T00:00:00Z"}))
    (tmp_path / "2026-notes").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "text, found",
    [
        ("latest", 1),
        ("2026-02", 2),
        ("2026-03-01T10", 0),
        (NAMES[0], 0),
        (IDS[1], 1),
        ("01KBB", 2),
    ],
)
def test_names_that_find_a_run(runs: Path, text: str, found: int) -> None:
    assert find_run(text, runs) == runs / NAMES[found]
    assert find_run(f"{runs}/{text}", Path("elsewhere")) == runs / NAMES[found]


def test_path_of_a_file_in_the_run_finds_the_run(runs: Path) -> None:
    assert find_run(str(runs / NAMES[0] / "run.json")) == runs / NAMES[0]


def test_existing_path_wins_over_a_prefix(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(runs)
    (runs / "2026-02").mkdir()
    assert find_run("2026-02", runs) == Path("2026-02")


def test_ambiguous_prefix_lists_the_candidates(runs: Path) -> None:
    with pytest.raises(InputError, match=r"2 runs in .* match") as caught:
        find_run("2026-03", runs)
    assert NAMES[0] in str(caught.value.remedy)
    assert NAMES[1] in str(caught.value.remedy)


def test_unknown_run_suggests_a_similar_one(runs: Path) -> None:
    with pytest.raises(InputError, match=r"no run .*did you mean `2026-02-27T12-00-00\+0000__mine__noop__none`"):
        find_run("2026-02-27T12-00-00+0000__mine__nopo__none", runs)
    with pytest.raises(InputError, match="no runs in"):
        find_run("latest", runs / "2026-notes")


def test_unknown_id_or_folder_suggests_a_similar_one(runs: Path) -> None:
    with pytest.raises(InputError, match=f"did you mean `{IDS[2]}`"):
        find_run("01KBBB00000000000000000OC", runs)
    artifacts = runs / "artifacts"
    artifacts.mkdir()
    with pytest.raises(InputError, match=f"does not exist .did you mean `{artifacts}/01K`"):
        find_run(f"{runs}/artefacts/01K")


def test_runs_are_listed_newest_first(runs: Path) -> None:
    renamed = runs / "renamed"
    (runs / NAMES[2]).rename(renamed)
    os.utime(renamed / "run.json")
    assert [path.name for path in run_directories(runs)] == [NAMES[1], NAMES[0], "renamed"]


def test_runs_of_the_same_second_are_ordered_by_their_exact_start(tmp_path: Path) -> None:
    for variant, millisecond in (("reference", 100), ("cheater", 300), ("partial", 200)):
        run = tmp_path / f"2026-03-01T10-00-00+0000__demo__{variant}__none"
        run.mkdir()
        (run / "run.json").write_text(json.dumps({"created_at": f"2026-03-01T10:00:00.{millisecond}+00:00"}))
    newest = [path.name.split("__")[2] for path in run_directories(tmp_path)]
    assert newest == ["cheater", "partial", "reference"]
