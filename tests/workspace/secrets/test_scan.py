"""The search of a whole base repository: order, limits, cache."""

from __future__ import annotations

import stat
from importlib.metadata import version
from pathlib import Path

import pytest

from agentbench.workspace.secrets import scan as module
from agentbench.workspace.secrets.scan import repository_secrets, scan
from agentbench.workspace.source.snapshot import Snapshot

pytestmark = [pytest.mark.req("E-10a"), pytest.mark.component]


def write(folder: Path, **files: str) -> Path:
    for name, value in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'password = "{value}"\n')
    return folder


def test_secrets_are_numbered_by_path(tmp_path: Path) -> None:
    write(tmp_path, b="hT7#qLm2vXz9", a__z="k2Vw-9xPqR", c="hT7#qLm2vXz9")
    found = scan(tmp_path)
    assert [(secret.value, secret.places) for secret in found.secrets] == [
        ("k2Vw-9xPqR", ("a/z:1",)),
        ("hT7#qLm2vXz9", ("b:1", "c:1")),
    ]
    assert (found.searched_files, found.skipped_files, found.complete) == (3, 0, True)


def test_git_folder_links_and_binary_files_are_not_searched(tmp_path: Path) -> None:
    write(tmp_path / "repo", **{".git__config": "hT7#qLm2vXz9"})
    outside = write(tmp_path / "other", file="k2Vw-9xPqR")
    (tmp_path / "repo" / "link").symlink_to(outside / "file")
    (tmp_path / "repo" / "folder").symlink_to(outside)
    (tmp_path / "repo" / "image").write_bytes(b'\0 password = "hT7#qLm2vXz9"')
    assert scan(tmp_path / "repo").secrets == ()


def test_limits_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a="hT7#qLm2vXz9", b="k2Vw-9xPqR")
    (tmp_path / "large").write_bytes(b"x" * (module.MAX_FILE + 1))
    monkeypatch.setattr(module, "MAX_SECRETS", 1)
    found = scan(tmp_path)
    assert (found.values, found.skipped_files, found.complete) == (("hT7#qLm2vXz9",), 1, False)
    monkeypatch.setattr(module, "MAX_TOTAL", 30)
    assert scan(tmp_path).skipped_files == 2


def test_result_is_cached_for_its_owner_only(tmp_path: Path) -> None:
    folder = write(tmp_path / "repo", a="hT7#qLm2vXz9")
    snapshot = Snapshot(folder, "sha256:" + "0" * 64)
    first = repository_secrets(snapshot, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (folder / "a").unlink()
    assert repository_secrets(snapshot, tmp_path / "cache") == first
    file.write_text("damaged")
    assert repository_secrets(snapshot, tmp_path / "cache").secrets == ()


def test_stated_version_of_the_rules_is_installed() -> None:
    assert version("detect-secrets") == module.DETECT_SECRETS
