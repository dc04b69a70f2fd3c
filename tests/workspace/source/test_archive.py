"""Base repositories from archives: the digest is verified first, then every entry is checked."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import http.server
import io
import lzma
import os
import random
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentbench.core.errors import SourceError
from agentbench.workspace.source.archive import unpack
from agentbench.workspace.source.materialize import SourceLimits
from agentbench.workspace.source.snapshot import Snapshot, Snapshots
from tests.workspace.tasks import files, snapshots, task

pytestmark = [pytest.mark.req("C-03b"), pytest.mark.component]

Entry = tuple[str, bytes | None, dict[str, object]]


def tar(*entries: Entry) -> bytes:
    """Build a tar file from (name, content or None, further header fields)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, fields in entries:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            info.mode = 0o644
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(content or b""))
    return buffer.getvalue()


def zipped(*entries: tuple[str, bytes, int]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


RELEASE = tar(
    ("pkg-1.0", None, {"type": tarfile.DIRTYPE}),
    ("pkg-1.0/mod.py", b"x = 1\n", {}),
    ("pkg-1.0/run.sh", b"#!/bin/sh\n", {"mode": 0o755}),
    ("pkg-1.0/sub/link", None, {"type": tarfile.SYMTYPE, "linkname": "../mod.py"}),
    ("pkg-1.0/hard", None, {"type": tarfile.LNKTYPE, "linkname": "pkg-1.0/mod.py"}),
    ("pkg-1.0/.git/config", b"[core]\n", {}),
    ("pkg-1.0/" + "long/" * 40 + "name", b"deep\n", {}),
)
EXPECTED = {
    "mod.py": b"x = 1\n", "run.sh": b"#!/bin/sh\n", "sub/link": b"-> ../mod.py", "hard": b"x = 1\n",
    "long/" * 40 + "name": b"deep\n",
}  # fmt: skip


def materialize(tmp_path: Path, data: bytes, name: str = "a.tar", **more: object) -> Snapshot:
    (tmp_path / "task").mkdir(exist_ok=True)
    (tmp_path / "task" / name).write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    return snapshots(tmp_path).materialize(task(tmp_path / "task", archive=name, sha256=digest, **more))


def assert_rejected(tmp_path: Path, data: bytes, reason: str, limits: SourceLimits | None = None) -> None:
    (tmp_path / "archive").write_bytes(data)
    folder = tmp_path / "out"
    folder.mkdir(exist_ok=True)
    with pytest.raises(SourceError, match=reason):
        unpack(tmp_path / "archive", folder, limits or SourceLimits())


@pytest.mark.parametrize(
    "pack", [lambda data: data, gzip.compress, bz2.compress, lzma.compress], ids=["tar", "gz", "bz2", "xz"]
)
def test_every_compression_gives_the_same_tree(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    snapshot = materialize(tmp_path, pack(RELEASE))
    assert files(snapshot) == EXPECTED
    assert os.access(snapshot.folder / "run.sh", os.X_OK)
    assert not os.access(snapshot.folder / "mod.py", os.X_OK) or os.geteuid() == 0
    assert (snapshot.folder / "mod.py").stat().st_mode & 0o777 == 0o644


def test_zip_archive(tmp_path: Path) -> None:
    data = zipped(
        ("top/", b"", 0o40755),
        ("top/mod.py", b"x\n", 0o100644),
        ("top/run", b"r\n", 0o100755),
        ("top/link", b"mod.py", 0o120777),
        ("top/dos", b"d\n", 0),
        ("top/ä", b"u\n", 0o100644),
    )
    snapshot = materialize(tmp_path, data, "a.zip")
    assert files(snapshot) == {"mod.py": b"x\n", "run": b"r\n", "link": b"-> mod.py", "dos": b"d\n", "ä": b"u\n"}
    assert (snapshot.folder / "run").stat().st_mode & 0o777 == 0o755


def test_concatenated_streams_and_padding(tmp_path: Path) -> None:
    data = gzip.compress(RELEASE[:700]) + gzip.compress(RELEASE[700:]) + b"\0" * 1000
    assert files(materialize(tmp_path, data)) == EXPECTED


@pytest.mark.parametrize(
    "entries,expected",
    [
        ([("a/x", b"1", {}), ("b/y", b"2", {})], {"a/x", "b/y"}),
        ([("x", b"1", {})], {"x"}),
        ([("a/x", b"1", {}), ("y", b"2", {})], {"a/x", "y"}),
        ([("./a/x", b"1", {}), ("./a//y", b"2", {})], {"x", "y"}),
        ([], set()),
    ],
)
def test_only_a_common_top_folder_is_stripped(tmp_path: Path, entries: list[Entry], expected: set[str]) -> None:
    assert set(files(materialize(tmp_path, tar(*entries)))) == expected


def test_recorded_source_facts(tmp_path: Path) -> None:
    digest = hashlib.sha256(RELEASE).hexdigest()
    assert materialize(tmp_path, RELEASE).source == {"kind": "archive", "archive": "a.tar", "sha256": digest}


def test_subdir_of_an_archive(tmp_path: Path) -> None:
    assert files(materialize(tmp_path, RELEASE, subdir="sub")) == {"link": b"-> ../mod.py"}


class TestDigest:
    def test_wrong_digest_error_shows_both_digests(self, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task/a.tar").write_bytes(RELEASE)
        with pytest.raises(SourceError, match=f"{hashlib.sha256(RELEASE).hexdigest()}, expected {'0' * 64}"):
            snapshots(tmp_path).materialize(task(tmp_path / "task", archive="a.tar", sha256="0" * 64))
        assert list((tmp_path / "cache/scratch").iterdir()) == []

    def test_damaged_cached_archive_is_fetched_again(self, tmp_path: Path) -> None:
        materialize(tmp_path, RELEASE)
        (kept,) = (tmp_path / "cache/archives").iterdir()
        kept.write_bytes(b"damaged")
        for record in (tmp_path / "cache/sources").iterdir():
            record.unlink()
        assert files(materialize(tmp_path, RELEASE)) == EXPECTED

    def test_cached_archive_does_not_need_the_file(self, tmp_path: Path) -> None:
        first = materialize(tmp_path, RELEASE)
        digest = "sha256:" + hashlib.sha256(RELEASE).hexdigest()
        loaded = task(tmp_path / "task", archive="a.tar", sha256=digest)
        (tmp_path / "task/a.tar").unlink()
        assert snapshots(tmp_path).materialize(loaded) == first


class TestHostile:
    @pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a/..", "..", "/"])
    def test_names_outside_the_archive_are_rejected(self, tmp_path: Path, name: str) -> None:
        assert_rejected(tmp_path, tar((name, b"x", {})), "outside its folder|forbidden path")
        assert_rejected(
            tmp_path, tar((name, None, {"type": tarfile.DIRTYPE})), "outside its folder"
        ) if name != "/" else None
        assert_rejected(
            tmp_path, zipped((name, b"x", 0o100644)), "outside its folder|forbidden path"
        ) if name != "/" else None
        assert not (tmp_path / "evil").exists()

    @pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "a/../../x", "..", ".git/hooks", "../x"])
    def test_symlinks_out_of_the_archive_are_rejected(self, tmp_path: Path, target: str) -> None:
        link: Entry = ("link", None, {"type": tarfile.SYMTYPE, "linkname": target})
        assert_rejected(tmp_path, tar(link, ("f", b"", {})), "forbidden symlink link")
        assert_rejected(tmp_path, zipped(("link", target.encode(), 0o120777), ("f", b"", 0)), "forbidden symlink link")

    def test_no_write_through_a_symlink(self, tmp_path: Path) -> None:
        link: Entry = ("d", None, {"type": tarfile.SYMTYPE, "linkname": "e"})
        assert_rejected(tmp_path, tar(("e/x", b"", {}), link, ("d/y", b"evil", {})), "both as a file|below the symlink")
        other = tmp_path / "other"
        other.mkdir()
        assert_rejected(other, tar(("e/x", b"", {}), ("d/y", b"evil", {}), link), "twice|both as")

    @pytest.mark.parametrize("target", ["missing", "../x", "/etc/passwd", "later"])
    def test_hard_links_must_point_to_an_earlier_file(self, tmp_path: Path, target: str) -> None:
        link: Entry = ("link", None, {"type": tarfile.LNKTYPE, "linkname": target})
        assert_rejected(tmp_path, tar(link, ("later", b"x", {})), "hard link|outside its folder")

    @pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
    def test_devices_and_other_tar_entries_are_rejected(self, tmp_path: Path, kind: bytes) -> None:
        assert_rejected(
            tmp_path,
            tar(("dev", None, {"type": kind, "devmajor": 1, "devminor": 3})),
            "not a file, folder or link|cannot read",
        )

    def test_special_zip_entries_are_rejected(self, tmp_path: Path) -> None:
        assert_rejected(tmp_path, zipped(("dev", b"", 0o20666)), "not a file, folder or link")

    def test_duplicate_paths_are_rejected(self, tmp_path: Path) -> None:
        assert_rejected(tmp_path, tar(("x", b"1", {}), ("x", b"2", {})), "x twice")
        other = tmp_path / "other"
        other.mkdir()
        assert_rejected(other, tar(("x", b"1", {}), ("x/y", b"2", {})), "both as a file and as a folder")

    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
    def test_decompression_bomb_in_a_tar_is_rejected(self, tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
        data = pack(tar(("zeros", bytes(20_000_000), {})))
        assert_rejected(tmp_path, data, "too much for its size", SourceLimits(free_bytes=1_000_000, ratio=10))

    def test_decompression_bomb_in_a_zip_is_rejected(self, tmp_path: Path) -> None:
        data = zipped(("zeros", bytes(20_000_000), 0))
        assert_rejected(tmp_path, data, "too much for its size", SourceLimits(free_bytes=1_000_000, ratio=10))

    def test_huge_tar_header_is_rejected(self, tmp_path: Path) -> None:
        info = tarfile.TarInfo("x")
        info.type = tarfile.XHDTYPE
        info.size = 1_000_000_000
        head = info.tobuf(tarfile.USTAR_FORMAT)
        assert_rejected(tmp_path, gzip.compress(head + bytes(30_000_000)), "header of")

    def test_zip_entry_larger_than_declared_is_rejected(self, tmp_path: Path) -> None:
        data = bytearray(zipped(("f", bytes(100_000), 0)))
        central = data.index(b"PK\x01\x02")
        data[central + 24 : central + 28] = (10).to_bytes(4, "little")
        assert_rejected(tmp_path, bytes(data), "cannot read")

    def test_too_many_entries_are_rejected(self, tmp_path: Path) -> None:
        many: list[Entry] = [(f"{number}", b"", {}) for number in range(30)]
        assert_rejected(tmp_path, tar(*many), "more than 20", SourceLimits(entries=20))

    def test_content_beyond_the_limit_is_rejected(self, tmp_path: Path) -> None:
        assert_rejected(
            tmp_path, tar(("x", bytes(1000), {})), "too much for its size|larger", SourceLimits(content_bytes=100)
        )

    @pytest.mark.parametrize(
        "data", [b"", b"hello", b"PK\x03\x04", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", RELEASE[:300]]
    )
    def test_files_that_are_not_archives_are_rejected(self, tmp_path: Path, data: bytes) -> None:
        assert_rejected(tmp_path, data, "archive")

    @pytest.mark.parametrize(
        "whole",
        [RELEASE, gzip.compress(RELEASE), bz2.compress(RELEASE), lzma.compress(RELEASE), zipped(("a/f", b"x" * 99, 0))],
        ids=["tar", "gz", "bz2", "xz", "zip"],
    )
    def test_damaged_archive_raises_only_source_errors(self, tmp_path: Path, whole: bytes) -> None:
        rng = random.Random(7)
        (tmp_path / "archive").parent.mkdir(exist_ok=True)
        for number in range(60):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            (tmp_path / "archive").write_bytes(data[: rng.choice([len(data), rng.randrange(1, len(data))])])
            folder = tmp_path / str(number)
            folder.mkdir()
            with contextlib.suppress(SourceError):
                unpack(tmp_path / "archive", folder, SourceLimits())

    def test_archive_that_is_a_fifo_does_not_block(self, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task/a.tar").write_bytes(b"")
        loaded = task(tmp_path / "task", archive="a.tar", sha256="0" * 64)
        (tmp_path / "task/a.tar").unlink()
        os.mkfifo(tmp_path / "task/a.tar")
        with pytest.raises(SourceError, match="is not a file"):
            snapshots(tmp_path).materialize(loaded)


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/a.tar.gz":
            data = gzip.compress(RELEASE, mtime=0)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        elif self.path in {"/moved", "/evil"}:
            self.send_response(302)
            self.send_header("Location", "/a.tar.gz" if self.path == "/moved" else "file:///etc/passwd")
            self.end_headers()
        elif self.path == "/half":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x")
        else:
            self.send_error(404)

    def log_message(self, *arguments: object) -> None:
        """Write no log."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


class TestWeb:
    digest = hashlib.sha256(gzip.compress(RELEASE, mtime=0)).hexdigest()

    def get(self, tmp_path: Path, url: str) -> Snapshot:
        return snapshots(tmp_path).materialize(task(tmp_path / "task", archive=url, sha256=self.digest))

    @pytest.mark.parametrize("path", ["/a.tar.gz", "/moved"])
    def test_archive_from_a_url(self, tmp_path: Path, server: str, path: str) -> None:
        assert files(self.get(tmp_path, server + path)) == EXPECTED

    @pytest.mark.parametrize("path", ["/missing", "/half", "/evil"])
    def test_failed_download_is_reported(self, tmp_path: Path, server: str, path: str) -> None:
        with pytest.raises(SourceError, match=path):
            self.get(tmp_path, server + path)
        assert not (tmp_path / "cache/archives").exists()

    def test_unreachable_server(self, tmp_path: Path, server: str) -> None:
        with pytest.raises(SourceError, match="cannot read"):
            self.get(tmp_path, "http://127.0.0.1:9/a.tar.gz")

    def test_file_url(self, tmp_path: Path) -> None:
        (tmp_path / "with space.tar.gz").write_bytes(gzip.compress(RELEASE, mtime=0))
        assert files(self.get(tmp_path, f"file://{tmp_path}/with%20space.tar.gz")) == EXPECTED
        with pytest.raises(SourceError, match="another machine"):
            Snapshots(tmp_path / "other").materialize(
                task(tmp_path / "task", archive="file://host/a.tar.gz", sha256=self.digest)
            )
