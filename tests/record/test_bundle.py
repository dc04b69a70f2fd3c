"""Bundles give back the run that was written, and nothing of a hostile one reaches the file system outside a private folder."""

from __future__ import annotations

import os
import shutil
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench.core.errors import InputError
from agentbench.record import bundle
from agentbench.record.audit import verify_run
from agentbench.record.bundle import is_bundle, open_bundle, write_bundle
from tests.record.bundles import member, pack
from tests.record.samples import whole_run

pytestmark = pytest.mark.component


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bundle_gives_back_the_run(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    (run / "report").mkdir()
    (run / "report/index.html").write_text("page")
    out = tmp_path / "run.tar.zst"
    files = write_bundle(run, out)
    assert is_bundle(out)
    expected = {name: data for name, data in contents(run).items() if not name.startswith("report/")}
    with open_bundle(out) as opened:
        assert opened.name == run.name
        assert contents(opened) == expected
        assert len(expected) == files
        assert verify_run(opened).ok
        assert opened.parent.stat().st_mode & 0o777 == 0o700
    assert not opened.parent.exists()


def test_equal_runs_give_equal_bundles(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    write_bundle(run, tmp_path / "a.tar.zst")
    os.utime(run / "run.json", (1, 1))
    write_bundle(run, tmp_path / "b.tar.zst")
    assert (tmp_path / "a.tar.zst").read_bytes() == (tmp_path / "b.tar.zst").read_bytes()


def test_links_of_a_kept_workspace_stay_inside_it(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    workspace = run / "tasks/toy/repo/src"
    workspace.mkdir(parents=True)
    (workspace / "tool").write_text("x")
    (workspace / "tool").chmod(0o755)
    (workspace / "alias").symlink_to("../src/tool")
    write_bundle(run, tmp_path / "run.tar.zst")
    with open_bundle(tmp_path / "run.tar.zst") as opened:
        assert (opened / "tasks/toy/repo/src/alias").readlink() == Path("../src/tool")
        assert (opened / "tasks/toy/repo/src/tool").stat().st_mode & 0o111


def test_run_with_other_links_is_not_exported(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    (run / "tasks/toy/logs/link").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        write_bundle(run, tmp_path / "run.tar.zst")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def sparse(name: str, size: int) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of one byte that is unpacked to `size` bytes."""
    info, data = member(name, b"x")
    info.pax_headers = {"GNU.sparse.size": str(size), "GNU.sparse.map": "0,1", "GNU.sparse.numblocks": "1"}
    return info, data


HOSTILE: dict[str, tuple[tuple[tarfile.TarInfo, bytes], ...]] = {
    "parent": (member("run/../../evil", b"x"),),
    "leading parent": (member("../evil", b"x"),),
    "absolute": (member("/tmp/agentbench-evil", b"x"),),
    "second folder": (member("other/run.json", b"{}"),),
    "file beside the folder": (member("evil", b"x"),),
    "symlink": (member("run/tasks", kind=tarfile.SYMTYPE, link="/tmp"),),
    "symlink out of a workspace": (member("run/tasks/a/repo/x", kind=tarfile.SYMTYPE, link="../../../../.."),),
    "absolute symlink in a workspace": (member("run/tasks/a/repo/x", kind=tarfile.SYMTYPE, link="/etc"),),
    "symlink as a workspace": (member("run/tasks/a/repo", kind=tarfile.SYMTYPE, link="logs"),),
    "chain of symlinks out of a workspace": (
        member("run/tasks/a/repo/a/b/c/d/e/f/g/h/l", kind=tarfile.SYMTYPE, link="../" * 8 + "x"),
        member("run/tasks/a/repo/m", kind=tarfile.SYMTYPE, link="a/b/c/d/e/f/g/h/l" + "/.." * 9),
    ),
    "symlink through a symlink": (
        member("run/tasks/a/repo/deep/a/b/up", kind=tarfile.SYMTYPE, link="../../../other"),
        member("run/tasks/a/repo/m", kind=tarfile.SYMTYPE, link="deep/a/b/up/./../.."),
    ),
    "symlink without a target": (member("run/tasks/a/repo/x", kind=tarfile.SYMTYPE),),
    "hard link": (member("run/evil", kind=tarfile.LNKTYPE, link="run/run.json"),),
    "device": (member("run/evil", kind=tarfile.CHRTYPE),),
    "pipe": (member("run/evil", kind=tarfile.FIFOTYPE),),
    "sparse file": (sparse("run/evil", 3 * 1024**3),),
    "duplicate": (member("run/run.json", b"[]"),),
    "below a file": (member("run/run.json/evil", b"x"),),
    "below a link": (
        member("run/tasks/a/repo/dir", kind=tarfile.SYMTYPE, link="other"),
        member("run/tasks/a/repo/dir/evil", b"x"),
    ),
    "deep folders": (member("run/" + "a/" * 100 + "b", b"x"),),
    "long name": (member("run/" + "a/" * 3000 + "b", b"x"),),
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_hostile_member_is_refused(
    members: tuple[tuple[tarfile.TarInfo, bytes], ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = pack(tmp_path / "run.tar.zst", *members)
    with pytest.raises(InputError, match="is not a safe bundle"), open_bundle(path):
        pass
    assert list(temporary.iterdir()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run.tar.zst", "tmp"]


def bomb(path: Path) -> Path:
    return pack(path, member("run/zeros", bytes(1024 * 1024)))


def header_bomb(path: Path) -> Path:
    info, _ = member("run/file", b"")
    info.pax_headers = {"comment": "a" * (1024 * 1024)}
    return pack(path, (info, b""))


@pytest.mark.parametrize("make,why", [(bomb, r"more than \d+ bytes"), (header_bomb, "header is too large")])
def test_bomb_is_refused(
    make: Callable[[Path], Path], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FREE_BYTES", 64 * 1024)
    monkeypatch.setattr(bundle, "MAX_RATIO", 1 if make is bomb else 10_000)
    monkeypatch.setattr(bundle, "HEADER_BYTES", 512 * 1024)
    with pytest.raises(InputError, match=why), open_bundle(make(tmp_path / "run.tar.zst")):
        pass


def test_headers_of_members_do_not_add_up_in_memory(tmp_path: Path) -> None:
    members = []
    for number in range(200):
        info, _ = member(f"run/file_{number}", b"")
        info.pax_headers = {"comment": "a" * 50_000}
        members.append((info, b""))
    path = pack(tmp_path / "run.tar.zst", *members)
    tracemalloc.start()
    try:
        with open_bundle(path):
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


def test_headers_for_all_members_are_refused(tmp_path: Path) -> None:
    header = member("all", kind=tarfile.XGLTYPE)[0], b"15 comment=all\n"
    path = pack(tmp_path / "run.tar.zst", header, member("run/file"))
    with pytest.raises(InputError, match="headers for all members"), open_bundle(path):
        pass


def test_folders_and_free_disk_space_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MAX_FILES", 50)
    many = pack(tmp_path / "many.tar.zst", member("run/" + "a/" * 30 + "x"), member("run/" + "b/" * 30 + "x"))
    with pytest.raises(InputError, match="more than 50 folders"), open_bundle(many):
        pass
    small = pack(tmp_path / "small.tar.zst")
    monkeypatch.setattr(bundle, "MIN_FREE_BYTES", shutil.disk_usage(tmp_path).total)
    with pytest.raises(InputError, match="expands to more than"), open_bundle(small):
        pass


@pytest.mark.parametrize("data", [b"", b"text", bundle.MAGIC, bundle.MAGIC + bytes(100)], ids=repr)
def test_file_that_is_no_bundle_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.tar.zst"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"nor a bundle|damaged bundle"), open_bundle(path):
        pass


def test_truncated_bundle_is_refused_or_does_not_verify(tmp_path: Path) -> None:
    run = whole_run(tmp_path / "runs")
    path = tmp_path / "run.tar.zst"
    write_bundle(run, path)
    whole = path.read_bytes()
    for size in (*range(0, len(whole), len(whole) // 12), *range(len(whole) - 8, len(whole))):
        path.write_bytes(whole[:size])
        try:
            with open_bundle(path) as opened:
                assert not verify_run(opened).ok
        except InputError:
            continue
