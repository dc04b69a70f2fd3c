"""Harvesting a history: candidates, ledger, held-out split, and continuing after an interruption."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.authoring.commit.commit_reader import TaskRequest
from agentbench.authoring.harvest.harvest import (
    Candidates,
    HarvestRequest,
    Ledger,
    Verdict,
    choose,
    harvest,
    is_held_out,
    summary_line,
)
from agentbench.contract.suite import load_suite
from agentbench.core.errors import InputError
from agentbench.execution.lab import Lab
from agentbench.workspace.source.history import Histories
from tests.authoring.conftest import BEFORE, FIX, put
from tests.workspace.reference_git import git

pytestmark = [pytest.mark.req("C-14", "C-18"), pytest.mark.component]


def chosen(repo: Path, tmp_path: Path) -> Candidates:
    with Histories(tmp_path / "cache").open(str(repo), tmp_path) as log:
        return choose(log.commits(log.head()), lambda commit, paths: log.patch(commit.parents[0], commit.id, paths))


def history(repo: Path, tmp_path: Path) -> list[str]:
    return [commit.id for commit in chosen(repo, tmp_path).commits]


def test_reverts_reverted_commits_and_copies_are_skipped(repo: Path, tmp_path: Path) -> None:
    put(repo, {"calc.py": FIX["calc.py"]}, "No test")
    bad = put(repo, {"calc.py": "x = 1\n", "tests/test_x.py": ""}, "Worse")
    git(repo, "revert", "--no-edit", bad)
    put(repo, BEFORE, "Back")
    good = put(repo, FIX, "Fix half")
    put(repo, BEFORE, "Again")
    copy = put(repo, FIX, "Fix half")
    candidates = history(repo, tmp_path)
    assert bad not in candidates
    assert (copy in candidates) != (good in candidates)
    passed_over = chosen(repo, tmp_path).passed_over
    assert passed_over["revert"] == passed_over["reverted later"] == passed_over["duplicate"] == 1


def test_commits_with_equal_subjects_are_not_copies(repo: Path, tmp_path: Path) -> None:
    first = put(repo, FIX, "Fix")
    second = put(
        repo,
        {
            "calc.py": f"{FIX['calc.py']!s}# more\n",
            "tests/test_calc.py": f"{FIX['tests/test_calc.py']!s}\n\ndef test_x():\n    pass\n",
        },
        "Fix",
    )
    assert history(repo, tmp_path) == [second, first]


@given(st.floats(0, 1), st.floats(0, 1), st.integers())
def test_a_larger_share_keeps_what_is_held_out(share: float, other: float, seed: int) -> None:
    commits = [f"{number:040x}" for number in range(20)]
    smaller, larger = sorted([share, other])
    held = {commit for commit in commits if is_held_out(commit, smaller, seed)}
    assert held <= {commit for commit in commits if is_held_out(commit, larger, seed)}
    assert not any(is_held_out(commit, 0, seed) for commit in commits)
    assert all(is_held_out(commit, 1, seed) for commit in commits)


def test_about_the_asked_share_is_held_out() -> None:
    commits = [f"{number:040x}" for number in range(2000)]
    assert 540 < sum(is_held_out(commit, 0.3, 20260307) for commit in commits) < 660


def test_shortened_lines_say_so() -> None:
    verdict = Verdict("a" * 40, "2026-01-02T03:04:05+00:00", "s" * 61, accepted=False, kind="skipped", reason="r" * 161)
    assert summary_line(verdict) == f"aaaaaaaaaa 2026-01-02 rejected (skipped): {'r' * 159}… | {'s' * 59}…"


def suites_of(folder: Path) -> dict[str, str]:
    """Return the suite of each task in a folder of suites."""
    names = [name for name in ("calc-dev", "calc-heldout") if (folder / name).is_dir()]
    return {task.id: name for name in names for task in load_suite(name, folder).tasks}


def test_interrupted_harvest_holds_out_the_same_tasks(repo: Path, lab: Lab, tmp_path: Path) -> None:
    half = put(repo, FIX, "Fix half")
    files = {
        "calc.py": "def half(v):\n    return v / 2\n\n\ndef twice(v):\n    return v + v\n",
        "tests/test_twice.py": "from calc import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n",
    }
    twice = put(repo, files, "Add twice")
    files = {
        "calc.py": (repo / "calc.py").read_text() + "# end\n",
        "tests/test_nothing.py": "def test_nothing():\n    pass\n",
    }
    put(repo, files, "Say end")
    # The newest is held out, so a harvest that stops after it would have to hold out all of its tasks.
    seed = next(n for n in range(1000) if is_held_out(twice, 0.5, n) and not is_held_out(half, 0.5, n))

    def request(name: str) -> HarvestRequest:
        task = TaskRequest(repo=str(repo), suite_dir=tmp_path / name / "calc-dev", pin=False, timeout_sec=60)
        ledger = tmp_path / name / "calc.harvest.json"
        return HarvestRequest(task, tmp_path / name / "calc-heldout", ledger, heldout=0.5, seed=seed, workers=2)

    tried: list[str] = []
    whole = harvest(request("whole"), lab, notify=lambda _line: None, show_running=tried.append)
    counts, _, running = tried[0].partition(" · ")
    assert counts == "0 of 20 accepted, 0 of 3 run"
    assert running.count(", ") == 1  # two workers
    assert {"Fix half", "Add twice", "Say end"} <= {
        step[11:].partition(" (")[0] for line in tried for step in line.partition(" · ")[2].split(", ")
    }
    assert tried[-1] == ""
    assert sorted((verdict.subject, verdict.kind) for verdict in whole.verdicts) == [
        ("Add twice", "accepted"),
        ("Fix half", "accepted"),
        ("Say end", "does not fail on parent"),
    ]
    suites = {f"calc-{twice[:10]}": "calc-heldout", f"calc-{half[:10]}": "calc-dev"}
    assert suites_of(tmp_path / "whole") == suites

    parts = request("parts")
    harvest(dataclasses.replace(parts, maximum=1, workers=1), lab, notify=lambda _line: None)
    assert suites_of(tmp_path / "parts") == {f"calc-{twice[:10]}": "calc-heldout"}
    parts.ledger.unlink()  # as if interrupted between task and verdict
    resumed = harvest(parts, lab, notify=lambda _line: None)
    assert suites_of(tmp_path / "parts") == suites
    assert set(resumed.verdicts) == set(whole.verdicts)

    lines: list[str] = []
    again = harvest(dataclasses.replace(parts, heldout=0, seed=1), lab, notify=lines.append)
    assert again.verdicts == resumed.verdicts
    assert lines[-1] == "0 candidates run"
    assert suites_of(tmp_path / "parts") == suites


def test_existing_task_stays_in_its_suite_under_another_seed(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(task, tmp_path / "calc-heldout", tmp_path / "calc.harvest.json", heldout=0)
    (first,) = harvest(request, lab, notify=lambda _line: None).verdicts
    assert (first.suite, first.seed, first.share) == ("calc-dev", request.seed, 0)
    request.ledger.unlink()
    (again,) = harvest(dataclasses.replace(request, heldout=1), lab, notify=lambda _line: None).verdicts
    assert (again.suite, again.seed, again.share) == ("calc-dev", None, None)
    assert suites_of(tmp_path) == {first.task_id: "calc-dev"}


def test_second_harvest_reuses_environments_and_verifications(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")

    def request(name: str) -> HarvestRequest:
        task = TaskRequest(repo=str(repo), suite_dir=tmp_path / f"{name}/calc-dev", pin=False, timeout_sec=60)
        return HarvestRequest(
            task, tmp_path / f"{name}/calc-heldout", tmp_path / f"{name}/calc.harvest.json", heldout=0
        )

    first = harvest(request("first"), lab, notify=lambda _line: None)
    backend = lab.backend(load_suite("calc-dev", tmp_path / "first").tasks[0])
    with mock.patch.object(backend, "open", side_effect=AssertionError("nothing should run")):
        second = harvest(request("second"), lab, notify=lambda _line: None)
    assert (
        [verdict.accepted for verdict in first.verdicts] == [verdict.accepted for verdict in second.verdicts] == [True]
    )
    tasks = [load_suite("calc-dev", tmp_path / name).tasks[0] for name in ("first", "second")]
    assert tasks[0].checks == tasks[1].checks


def test_ledger_is_used_by_one_harvest_at_a_time(repo: Path, lab: Lab, tmp_path: Path) -> None:
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "calc-dev")
    request = HarvestRequest(task, tmp_path / "calc-heldout", tmp_path / "calc.harvest.json")

    def again(_line: str) -> None:
        with pytest.raises(InputError, match="another harvest is using"):
            harvest(request, lab, notify=lambda _line: None)
        lines.append(_line)

    lines: list[str] = []
    harvest(request, lab, notify=again)
    assert lines


def test_foreign_file_is_not_overwritten_as_ledger(tmp_path: Path) -> None:
    file = tmp_path / "x.harvest.json"
    file.write_text(json.dumps({"mine": 1}))
    with pytest.raises(InputError, match="not a harvest ledger"):
        Ledger.open(file)


def test_ledger_of_another_version_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "x.harvest.json"
    file.write_text(json.dumps({"schema_version": 2, "verdicts": []}))
    with pytest.raises(InputError, match=r"x\.harvest\.json: schema_version: expected 1; got 2") as caught:
        Ledger.open(file)
    assert "--name" in caught.value.remedy


def test_unknown_retry_kind_is_rejected_before_anything_runs(lab: Lab, tmp_path: Path) -> None:
    task = TaskRequest(repo="/nowhere", suite_dir=tmp_path / "calc-dev")
    request = HarvestRequest(task, tmp_path / "calc-heldout", tmp_path / "calc.harvest.json", retry=("setup faild",))
    with pytest.raises(InputError, match=r"'setup faild' \(did you mean `setup failed`\?\)") as caught:
        harvest(request, lab, notify=lambda _line: None)
    assert "does not fail on parent" in caught.value.remedy


def test_harvest_without_candidates_explains_why(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, {"calc.py": FIX["calc.py"]}, "No test")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "calc-dev")
    request = HarvestRequest(task, tmp_path / "calc-heldout", tmp_path / "calc.harvest.json")
    lines: list[str] = []
    assert harvest(request, lab, notify=lines.append).candidates == 0
    explanation = "no usable commits found among 2 (no test change 1, root commit 1): a commit must"
    assert any(line.startswith(explanation) for line in lines)
    lines.clear()
    harvest(dataclasses.replace(request, since="2050-01-01T00:00:00"), lab, notify=lines.append)
    assert any(line.startswith("no usable commits found: there are none since 2050-01-01T00:00:00") for line in lines)


def test_harvest_says_when_older_commits_are_ignored(
    repo: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = git(repo, "rev-parse", "HEAD").decode().strip()
    put(repo, {"calc.py": "x = 1\n"}, "One")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "calc-dev")
    request = HarvestRequest(task, tmp_path / "calc-heldout", tmp_path / "calc.harvest.json")
    lines: list[str] = []
    monkeypatch.setattr("agentbench.authoring.harvest.harvest.MAX_COMMITS", 1)
    harvest(request, lab, notify=lines.append)
    assert f"reading only the newest 1 commits; pass --start {first[:12]} for older ones" in lines
    lines.clear()
    monkeypatch.setattr("agentbench.authoring.harvest.harvest.MAX_COMMITS", 2)
    harvest(request, lab, notify=lines.append)
    assert not any(line.startswith("reading only") for line in lines)
    assert "0 candidates, 0 already in the ledger" in lines


def test_tasks_of_an_interrupted_harvest_are_accepted(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(task, tmp_path / "tasks/calc-heldout", tmp_path / "tasks/calc.harvest.json", heldout=0)
    (first,) = harvest(request, lab, notify=lambda _line: None).verdicts
    request.ledger.unlink()  # as if interrupted between task and verdict
    (again,) = harvest(request, lab, notify=lambda _line: None).verdicts
    assert again == first
    assert again.flags
    request.ledger.unlink()
    (tmp_path / f"tasks/calc-dev/{first.task_id}/notes.md").write_text("written by hand")
    (other,) = harvest(request, lab, notify=lambda _line: None).verdicts
    assert (other.accepted, other.kind) == (False, "exists already")


def test_suite_has_its_schemas_as_soon_as_a_task_is_accepted(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(task, tmp_path / "tasks/calc-heldout", tmp_path / "tasks/calc.harvest.json", heldout=0)
    written: list[bool] = []

    def look(line: str) -> None:
        if "accepted calc-" in line:
            written.append((tmp_path / "tasks/calc-dev/task.schema.json").is_file())

    harvest(request, lab, notify=look)
    assert written == [True]
    assert not (tmp_path / "tasks/calc-heldout").exists()


def test_retry_runs_rejected_candidates_again(repo: Path, lab: Lab, tmp_path: Path) -> None:
    fix = put(repo, FIX, "Fix half")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(task, tmp_path / "tasks/calc-heldout", tmp_path / "tasks/calc.harvest.json", heldout=0)
    Ledger.open(request.ledger).put(Verdict(fix, "2026-01-01", "Fix half", accepted=False, kind="setup failed"))
    (kept,) = harvest(request, lab, notify=lambda _line: None).verdicts
    assert not kept.accepted
    (retried,) = harvest(dataclasses.replace(request, retry=("setup failed",)), lab, notify=lambda _line: None).verdicts
    assert retried.accepted
