"""The URL that a local clone came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.workspace.source.origin import origin_of
from tests.workspace.reference_git import commit_all, git, repository

pytestmark = [pytest.mark.req("C-18"), pytest.mark.component]


@pytest.mark.parametrize(
    "url, found",
    [
        ("https://user:secret@example.org/lib.git", "https://example.org/lib.git"),
        ("git@example.org:team/lib.git", "git@example.org:team/lib.git"),
        ("../elsewhere", None),
        ("/srv/lib.git", None),
        ("ext::sh -c true", None),
    ],
)
def test_origin_is_a_url_that_other_machines_can_reach(tmp_path: Path, url: str, found: str | None) -> None:
    folder = repository(tmp_path / "lib")
    git(folder, "config", "remote.other.url", "https://example.org/other.git")
    assert origin_of(folder) is None
    git(folder, "config", "remote.origin.url", url)
    assert origin_of(folder) == found


def test_clone_of_a_local_clone_came_from_the_same_url(tmp_path: Path) -> None:
    original = repository(tmp_path / "lib")
    git(original, "config", "remote.origin.url", "https://example.org/lib.git")
    (original / "f").write_text("x")
    commit_all(original)
    git(tmp_path, "clone", "-q", str(original), "copy")
    git(tmp_path, "clone", "-q", "file://" + str(tmp_path / "copy"), "copy-of-copy")
    assert origin_of(tmp_path / "copy-of-copy") == "https://example.org/lib.git"
    git(original, "config", "remote.origin.url", "../copy")
    assert origin_of(tmp_path / "copy") is None


def test_worktree_has_the_origin_of_its_repository(tmp_path: Path) -> None:
    folder = repository(tmp_path / "lib")
    (folder / "f").write_text("x")
    commit_all(folder)
    git(folder, "config", "remote.origin.url", "https://example.org/lib.git")
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert origin_of(tmp_path / "tree") == "https://example.org/lib.git"


def test_folder_without_repository_has_no_origin(tmp_path: Path) -> None:
    assert origin_of(tmp_path) is None
