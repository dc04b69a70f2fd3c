"""Writing a batch of files, all or nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

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
