"""Writing a batch of files, all or nothing."""

from __future__ import annotations

import os
import posix
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentbench.sandbox.server.writer import Batch

NAMES = st.sampled_from([b"a", b"b", b"c", b"link", b"out"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
ITEMS = st.tuples(
    PATHS, st.sampled_from([b"file", b"link", b"gone"]), st.sampled_from([b"0", b"1"]), st.binary(max_size=5)
)


def snapshot(root: Path) -> dict[str, tuple[str, bytes]]:
    files: dict[str, tuple[str, bytes]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            files[str(path.relative_to(root))] = ("link", os.fsencode(path.readlink()))
        elif path.is_file():
            files[str(path.relative_to(root))] = ("file", path.read_bytes())
    return files


@settings(max_examples=200)
@given(st.lists(ITEMS, max_size=6))
def test_batch_is_all_or_nothing_and_stays_inside(items: list[tuple[bytes, bytes, bytes, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as top:
        root, outside = Path(top) / "root", Path(top) / "outside"
        (root / "a").mkdir(parents=True)
        (root / "a/b").write_bytes(b"old")
        (root / "c").write_bytes(b"old")
        outside.mkdir()
        (outside / "a").write_bytes(b"precious")
        (root / "out").symlink_to(outside)
        (root / "link").symlink_to("a")
        before = snapshot(root)
        batch = Batch(str(root).encode())
        requested = [[path, kind, executable, content or b"x"] for path, kind, executable, content in items]
        batch.add([[item[0], item[1], item[2], item[3].replace(b"\0", b"x")] for item in requested])
        answer = batch.finish()
        assert snapshot(outside) == {"a": ("file", b"precious")}
        assert not list(root.rglob(".ab-*"))
        if answer[0] == b"refused":
            assert snapshot(root) == before
        else:
            after = snapshot(root)
            last = {item[0].decode(): item for item in requested if item[1] != b"gone"}
            for path, item in last.items():
                if not any(other != path and path.startswith(f"{other}/") for other in last):
                    assert after[path][0] == item[1].decode()


def test_large_files_arrive_in_pieces(tmp_path: Path) -> None:
    batch = Batch(str(tmp_path).encode())
    batch.add([[b"big", b"file", b"1", b"one"], [b"big", b"more", b"1", b"two"]])
    batch.add([[b"big", b"more", b"1", b"three"], [b"small", b"file", b"0", b"s"]])
    assert not (tmp_path / "big").exists()
    assert batch.finish() == [b"ok"]
    assert (tmp_path / "big").read_bytes() == b"onetwothree"
    assert (tmp_path / "big").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "small").stat().st_mode & 0o777 == 0o644


def refused_batch(root: Path, paths: list[bytes]) -> None:
    """Write files and then one that cannot be written."""
    (root / "folder").mkdir()
    (root / "folder/file").touch()
    batch = Batch(str(root).encode())
    batch.add([[path, b"file", b"0", b"x"] for path in [*paths, b"folder"]])
    assert batch.finish()[0] == b"refused"


def test_folders_of_a_refused_batch_are_removed(tmp_path: Path) -> None:
    refused_batch(tmp_path, [b"a/b/c/file", b"a/b/d/e/file", b"a/file", b"b/c/file"])
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_deep_folders_are_entered_once_and_not_once_per_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a walk from the root for every folder, 200,000 deep ones kept the command server busy for minutes."""
    opened = 0
    real = posix.open

    def count(*arguments: object, **options: object) -> int:
        nonlocal opened
        opened += 1
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("posix.open", count)
    depth, files = 300, 10
    refused_batch(tmp_path, [b"%d/" % number + b"a/" * (depth - 1) + b"file" for number in range(files)])
    assert opened < 8 * depth * files


def test_a_folder_that_is_moved_meanwhile_is_not_left_through(tmp_path: Path) -> None:
    """A program may move the folder in which the server is, so that `..` leads elsewhere."""
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    batch = Batch(str(root).encode())
    batch.add([[b"a/b/file", b"file", b"0", b"x"]])
    writer = batch.writer
    assert writer is not None
    writer.apply()
    (root / "a/b").rename(elsewhere / "b")
    writer.staged = []
    batch.add([[b"a/other", b"file", b"0", b"y"]])
    assert batch.finish() == [b"ok"]
    assert (root / "a/other").read_bytes() == b"y"
    assert [path.name for path in elsewhere.rglob("*")] == ["b", "file"]
