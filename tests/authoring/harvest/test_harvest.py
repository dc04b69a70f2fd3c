"""Harvesting a history: candidates, ledger, held-out split, and continuing after an interruption."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
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
    choose_heldout,
    harvest,
)
from agentbench.contract.suite import load_suite
from agentbench.core.errors import InputError
from agentbench.run.lab import Lab
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


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=6), st.sampled_from(["bugfix/short", "feature/short", "x/long"])
    ),
    st.floats(0, 1),
    st.integers(),
)
def test_heldout_share_applies_to_every_stratum(strata: dict[str, str], share: float, seed: int) -> None:
    chosen = choose_heldout(strata, share, seed)
    assert chosen <= strata.keys()
    assert chosen == choose_heldout(dict(reversed(strata.items())), share, seed)
    assert abs(len(chosen) - len(strata) * share) <= 1
    sizes, held = Counter(strata.values()), Counter(strata[task_id] for task_id in chosen)
    assert all(abs(held[stratum] - size * share) <= 1.5 for stratum, size in sizes.items())


def test_harvest_holds_out_tasks_and_continues(repo: Path, lab: Lab, tmp_path: Path) -> None:
    put(repo, FIX, "Fix half")
    put(
        repo,
        {
            "calc.py": "def half(v):\n    return v / 2\n\n\ndef twice(v):\n    return v + v\n",
            "tests/test_twice.py": "from calc import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n",
        },
        "Add twice",
    )
    put(
        repo,
        {
            "calc.py": (repo / "calc.py").read_text() + "# end\n",
            "tests/test_nothing.py": "def test_nothing():\n    pass\n",
        },
        "Say end",
    )
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(
        task, tmp_path / "tasks/calc-heldout", tmp_path / "tasks/calc.harvest.json", heldout=0.5, workers=2
    )
    lines: list[str] = []
    tried: list[str] = []
    first = harvest(request, lab, notify=lines.append, show_running=tried.append)
    assert tried[0].count(", ") == 1  # two workers
    assert {"Fix half", "Add twice", "Say end"} == {
        commit[11:] for line in tried if line for commit in line.split(", ")
    }
    assert tried[-1] == ""
    assert sorted((verdict.subject, verdict.kind) for verdict in first.verdicts) == [
        ("Add twice", "accepted"),
        ("Fix half", "accepted"),
        ("Say end", "does not fail on parent"),
    ]
    suites = {
        name: [task.id for task in load_suite(name, tmp_path / "tasks").tasks] for name in ("calc-dev", "calc-heldout")
    }
    assert [len(tasks) for tasks in suites.values()] == [1, 1]
    lines.clear()
    again = harvest(request, lab, notify=lines.append)
    assert again.verdicts == first.verdicts
    assert lines[-1] == "0 candidates run"
    assert {name: [task.id for task in load_suite(name, tmp_path / "tasks").tasks] for name in suites} == suites


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
    assert lines[1].startswith("no usable commits found among 2 (no test change 1, root commit 1): a commit must")
    lines.clear()
    harvest(dataclasses.replace(request, since="2050-01-01T00:00:00"), lab, notify=lines.append)
    assert lines[1].startswith("no usable commits found: there are none since 2050-01-01T00:00:00")


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
    assert lines[0] == f"reading only the newest 1 commits; pass --start {first[:12]} for older ones"
    lines.clear()
    monkeypatch.setattr("agentbench.authoring.harvest.harvest.MAX_COMMITS", 2)
    harvest(request, lab, notify=lines.append)
    assert lines[0] == "0 candidates, 0 already in the ledger"


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


def test_retry_runs_rejected_candidates_again(repo: Path, lab: Lab, tmp_path: Path) -> None:
    fix = put(repo, FIX, "Fix half")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/calc-dev", pin=False, timeout_sec=60)
    request = HarvestRequest(task, tmp_path / "tasks/calc-heldout", tmp_path / "tasks/calc.harvest.json", heldout=0)
    Ledger.open(request.ledger).put(Verdict(fix, "2026-01-01", "Fix half", accepted=False, kind="setup failed"))
    (kept,) = harvest(request, lab, notify=lambda _line: None).verdicts
    assert not kept.accepted
    (retried,) = harvest(dataclasses.replace(request, retry=("setup failed",)), lab, notify=lambda _line: None).verdicts
    assert retried.accepted
