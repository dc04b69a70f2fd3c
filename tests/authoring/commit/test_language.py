"""Repositories in languages that are not supported."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.authoring.commit.commit_reader import TaskRequest, read_commit
from agentbench.authoring.commit.language import require_python
from agentbench.authoring.commit.split import UnsuitableCommit
from agentbench.authoring.harvest.harvest import HarvestRequest, harvest
from agentbench.execution.lab import Lab
from tests.authoring.conftest import put
from tests.workspace.reference_git import repository

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]


@pytest.mark.parametrize(
    "paths",
    [
        ["lib.py", "tests/test_lib.py", "fast.c"],
        ["pyproject.toml", "src/lib.rs", "src/more.rs", "lib/__init__.py"],
        ["README.md"],
    ],
)
def test_python_projects_are_accepted(paths: list[str]) -> None:
    require_python(paths, "lib")


@pytest.mark.parametrize("script", [[], ["tools/release.py"]])
def test_other_language_is_named(script: list[str]) -> None:
    with pytest.raises(UnsuitableCommit, match=r"^lib is written in Go \(2 of ") as caught:
        require_python(["main.go", "main_test.go", *script], "lib")
    assert (caught.value.kind, caught.value.exit_code) == ("language", 2)
    assert "ab task new" in caught.value.remedy


def test_both_commands_refuse_the_repository_at_once(tmp_path: Path, lab: Lab) -> None:
    repo = repository(tmp_path / "lib")
    put(repo, {"main.go": "package main\n"}, "Begin")
    put(repo, {"main.go": "package lib\n", "main_test.go": "package lib\n"}, "Fix it")
    task = TaskRequest(repo=str(repo), suite_dir=tmp_path / "tasks/lib-dev")
    with pytest.raises(UnsuitableCommit, match="is written in Go"):
        read_commit(task, "HEAD", lab)
    request = HarvestRequest(task, tmp_path / "tasks/lib-heldout", tmp_path / "tasks/lib.harvest.json")
    lines: list[str] = []
    with pytest.raises(UnsuitableCommit, match="is written in Go"):
        harvest(request, lab, notify=lines.append)
    assert lines == [f"reading the history of {repo}"]
