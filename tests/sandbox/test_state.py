"""The state folder: where it is, who owns what in it, and what dead owners leave."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentbench.core.errors import SandboxError
from agentbench.sandbox.state import Owner, default_state, remove_leftovers

pytestmark = pytest.mark.component


def test_state_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_state({"AB_STATE": "/x/y", "XDG_CACHE_HOME": "/z"}) == Path("/x/y")
    assert default_state({"XDG_CACHE_HOME": "/z"}) == Path("/z/agentbench")
    assert default_state({}) == tmp_path / ".cache/agentbench"


def test_unwritable_state_folder_names_ab_state(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SandboxError, match="cannot write to the state folder") as caught:
        Owner(tmp_path / "file")
    assert "AB_STATE" in caught.value.remedy


@pytest.mark.req("R-06")
def test_cleanup_removes_only_groups_with_the_owners_name(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    unrelated = tmp_path / "agentbench-other"
    unrelated.mkdir()
    owner.record_cgroups([unrelated])
    owner.release()
    assert remove_leftovers(tmp_path) == [owner.name]
    assert unrelated.is_dir()


@pytest.mark.req("R-06")
def test_owner_killed_during_creation_is_removed_later(tmp_path: Path) -> None:
    unfinished = tmp_path / "live" / ".someone"
    unfinished.mkdir(parents=True)
    remove_leftovers(tmp_path)
    assert unfinished.is_dir()
    os.utime(unfinished, (0, 0))
    remove_leftovers(tmp_path)
    assert not unfinished.is_dir()


@pytest.mark.req("R-06")
def test_damaged_owner_file_does_not_stop_cleanup(tmp_path: Path) -> None:
    owner = Owner(tmp_path)
    (owner.folder / "owner.json").write_text(json.dumps({"cgroups": "no"})[:-3])
    owner.release()
    assert remove_leftovers(tmp_path) == [owner.name]


@pytest.mark.req("R-08")
def test_owner_during_creation_is_not_removed(tmp_path: Path) -> None:
    recent, left = tmp_path / "live" / ".recent", tmp_path / "live" / ".left"
    for folder in (recent, left):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    long_ago = recent.stat().st_mtime - 3600
    os.utime(left, (long_ago, long_ago))
    assert remove_leftovers(tmp_path) == [".left"]
    assert recent.is_dir()
