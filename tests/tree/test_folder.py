"""Hostile trees are read safely."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentbench.core.errors import AgentFault, WorkspaceError
from agentbench.tree import beneath
from agentbench.tree.entry import Entry, Kind, tree_digest
from agentbench.tree.folder import NOTHING_CHANGED, FolderTree
from agentbench.tree.limits import TreeLimits, TreeTooLarge
from agentbench.tree.memory import MemoryTree
from tests.workspace import child

pytestmark = pytest.mark.component

NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: not {0, 47} & set(name) and name not in {b".", b".."})


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tree"
    folder.mkdir()
    yield folder
    # These trees are too deep for pytest to clean up.
    flatten(folder / "dd", tmp_path)


def flatten(path: Path, place: Path) -> None:
    while path.is_dir():
        below = path / "dd"
        held = place / os.urandom(4).hex()
        if below.is_dir():
            below.rename(held)
        shutil.rmtree(path)
        path = held


@pytest.fixture(params=[True, False], ids=["openat2", "by parts"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param and not beneath.HAS_OPENAT2:
        pytest.fail("this kernel has no openat2, so the first way is not tested")
    monkeypatch.setattr(beneath, "HAS_OPENAT2", request.param)


def listed(folder: Path, limits: TreeLimits | None = None) -> dict[bytes, Entry]:
    with FolderTree.at(folder, limits=limits) as tree:
        return {entry.path: entry for entry in tree.entries()}


@pytest.mark.req("E-05a")
def test_entries_have_digest_size_and_mode(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a/run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "a/run.sh").chmod(0o755)
    (root / "link").symlink_to("a/run.sh")
    entries = listed(root)
    assert entries[b"a/run.sh"] == Entry(b"a/run.sh", Kind.FILE, True, 10, hashlib.sha256(b"#!/bin/sh\n").hexdigest())
    assert entries[b"link"] == Entry(b"link", Kind.SYMLINK, False, 8, hashlib.sha256(b"a/run.sh").hexdigest())


def test_empty_folders_are_not_entries(root: Path) -> None:
    (root / "empty/deeper").mkdir(parents=True)
    assert listed(root) == {}


def test_git_folder_is_left_out_only_at_the_root(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_text("x")
    (root / "sub/.git").mkdir(parents=True)
    (root / "sub/.git/config").write_text("x")
    (root / ".gitignore").write_text("x")
    assert list(listed(root)) == [b".gitignore", b"sub/.git/config"]


def test_git_file_and_git_symlink_at_the_root_are_left_out(root: Path) -> None:
    (root / ".git").write_text("gitdir: /etc")
    assert listed(root) == {}
    (root / ".git").unlink()
    (root / ".git").symlink_to("/etc")
    assert listed(root) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(paths=st.sets(st.lists(NAMES, min_size=1, max_size=3).map(b"/".join), max_size=12))
def test_paths_of_any_bytes_come_back_sorted(tmp_path: Path, paths: set[bytes]) -> None:
    with_parents = {path for path in paths if not any(other.startswith(path + b"/") for other in paths)}
    kept = {path for path in with_parents if path.split(b"/")[0] != b".git"}
    folder = tmp_path / os.urandom(8).hex()
    folder.mkdir()
    for path in kept:
        target = folder / os.fsdecode(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path)
    entries = listed(folder)
    assert list(entries) == sorted(kept)
    memory = MemoryTree({path: path for path in kept})
    assert list(entries.values()) == list(memory.entries())
    assert tree_digest(entries.values()) == tree_digest(memory.entries())


@pytest.mark.usefixtures("_both_ways")
def test_symlinks_are_never_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "file").symlink_to(tmp_path / "secret/key")
    (root / "loop").symlink_to("loop")
    entries = listed(root)
    assert {path: entry.kind for path, entry in entries.items()} == dict.fromkeys(
        (b"file", b"loop", b"out"), Kind.SYMLINK
    )
    with FolderTree.at(root) as tree:
        assert tree.read(b"file", max_bytes=1000) == os.fsencode(tmp_path / "secret/key")
        with pytest.raises(NotADirectoryError):
            tree.read(b"out/key", max_bytes=1000)
        with pytest.raises(NotADirectoryError):
            tree.entry(b"out/key")


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize(
    "path", [b"", b"/etc/passwd", b"../secret", b"a/../../secret", b"./a", b"a//b", b"a/", b"a\0b"]
)
def test_paths_that_leave_the_tree_are_rejected(root: Path, path: bytes) -> None:
    (root / "a").mkdir()
    (root.parent / "secret").write_text("secret")
    with FolderTree.at(root) as tree, pytest.raises(ValueError, match="not a plain relative path"):
        tree.read(path, max_bytes=1000)


def test_special_files_are_entries_and_do_not_block(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    assert {path: entry.kind for path, entry in listed(root).items()} == {
        b"fifo": Kind.SPECIAL,
        b"socket": Kind.SPECIAL,
    }
    with FolderTree.at(root) as tree, pytest.raises(FileNotFoundError):
        tree.read(b"fifo", max_bytes=10)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_devices_are_entries_and_are_not_opened(root: Path) -> None:
    os.mknod(root / "null", 0o20666, os.makedev(1, 3))
    assert listed(root)[b"null"].kind is Kind.SPECIAL


def test_setuid_hardlinks_and_sparse_files_are_plain_files(root: Path) -> None:
    (root / "a").write_bytes(b"x")
    (root / "a").chmod(0o4755)
    os.link(root / "a", root / "b")
    with (root / "sparse").open("wb") as file:
        file.truncate(3_000_000)
    entries = listed(root)
    assert entries[b"a"].executable
    assert entries[b"a"].sha256 == entries[b"b"].sha256
    assert entries[b"sparse"].size == 3_000_000


@pytest.mark.parametrize("quick", [False, True])
def test_file_with_many_hard_links_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch, quick: bool) -> None:
    (root / "links").mkdir()
    (root / "links" / "0").write_bytes(b"a" * 1000)
    for number in range(1, 20):
        os.link(root / "links" / "0", root / "links" / str(number))
    wait_for_clock()
    sizes: list[int] = []
    read = os.read

    def counting(fd: int, size: int) -> bytes:
        data = read(fd, size)
        sizes.append(len(data))
        return data

    with FolderTree.at(root / "links") as tree:
        for content in (b"a" * 1000, b"b" * 1000):
            (root / "links" / "7").write_bytes(content)
            wait_for_clock()
            sizes.clear()
            with monkeypatch.context() as patched:
                patched.setattr(os, "read", counting)
                entries = list(tree.quick_entries() if quick else tree.entries())
            assert {entry.sha256 for entry in entries} == {hashlib.sha256(content).hexdigest()}
            assert (len(entries), sum(sizes)) == (20, 1000)


def test_sparse_file_counts_by_its_apparent_size(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(TreeTooLarge, match="bytes of content"):
        listed(root)
    with FolderTree.at(root) as tree, pytest.raises(TreeTooLarge):
        tree.read(b"sparse", max_bytes=1000)


def test_too_many_entries_are_rejected_including_folders(root: Path) -> None:
    for number in range(11):
        (root / str(number)).mkdir()
    with pytest.raises(TreeTooLarge, match="more than 10 entries") as caught:
        listed(root, TreeLimits(entries=10))
    assert isinstance(caught.value, AgentFault)


def deep(root: Path, levels: int) -> Iterator[int]:
    """Yield descriptors of nested folders."""
    fd = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("dd", dir_fd=fd)
        below = os.open("dd", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        yield fd
    os.close(fd)


def test_paths_longer_than_path_max_are_read(root: Path) -> None:
    for depth, fd in enumerate(deep(root, 1500), 1):
        if depth % 250 == 0:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
            os.mkdir("zz", dir_fd=fd)
            os.close(os.open("zz/after", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    entries = listed(root)
    assert len(entries) == 12
    assert list(entries) == sorted(entries)
    longest = max(entries, key=len)
    assert len(longest) > 4096
    with FolderTree.at(root) as tree:
        assert tree.read(longest, max_bytes=10) == b""
        assert tree.entry(longest) == entries[longest]
    with pytest.raises(TreeTooLarge, match="a path longer"):
        listed(root, TreeLimits(path_bytes=1000))


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_no_descriptor_is_left_open(root: Path) -> None:
    list(deep(root, 100))
    (root / "x").write_text("x")
    before = open_descriptors()
    for limits in (None, TreeLimits(entries=50)):
        try:
            listed(root, limits)
        except TreeTooLarge:
            assert limits
    with FolderTree.at(root) as tree:
        next(tree.entries())
    assert open_descriptors() == before


def test_growing_file_stays_within_the_limits(root: Path) -> None:
    stop = threading.Event()

    def grow() -> None:
        with (root / "file").open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 64 << 20:
                file.write(bytes(1 << 20))

    (root / "file").write_bytes(b"")
    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(5):
            try:
                entries = listed(root, TreeLimits(bytes=8 << 20))
            except TreeTooLarge:
                continue
            assert entries[b"file"].size <= 8 << 20
    finally:
        stop.set()
        thread.join()


def test_folders_moved_during_a_walk_are_an_agent_fault(root: Path, tmp_path: Path) -> None:
    list(deep(root, 80))
    (root / "dd/dd/zz").mkdir()
    (root / "dd/dd/zz/after").write_text("x")
    bottom = root.joinpath(*["dd"] * 80)
    (bottom / "file").write_text("x")
    with FolderTree.at(root) as tree:
        walking = tree.entries()
        assert next(walking).path.endswith(b"/file")
        (root / "dd/dd/dd").rename(root / "dd/away")
        with pytest.raises(TreeTooLarge, match="move while being read"):
            list(walking)
    flatten(root / "dd/away", tmp_path)


def test_deleted_folder_is_an_empty_tree(root: Path) -> None:
    (root / "x").write_text("x")
    with FolderTree.at(root) as tree:
        (root / "x").unlink()
        root.rmdir()
        assert list(tree.entries()) == []


def test_missing_or_symlinked_root_is_a_harness_error(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    for path in (tmp_path / "missing", tmp_path / "link"):
        with pytest.raises(WorkspaceError, match="cannot open the folder"):
            FolderTree.at(path)


def test_reading_a_folder_or_missing_file_raises(root: Path) -> None:
    (root / "a").mkdir()
    with FolderTree.at(root) as tree:
        with pytest.raises(IsADirectoryError):
            tree.read(b"a", max_bytes=1)
        with pytest.raises(IsADirectoryError):
            tree.entry(b"a")
        with pytest.raises(FileNotFoundError):
            tree.read(b"no/such", max_bytes=1)
        assert tree.entry(b"no/such") is None
        assert tree.entry(b"no") is None


AS_OTHER_USER = """
import os, sys
from agentbench.tree.folder import FolderTree
os.setgroups([])
os.setresuid(54321, 54321, 54321)
tree = FolderTree(int(sys.argv[1]))
print(([entry.kind.value for entry in tree.entries()], sorted(tree.problems)))
"""


def test_unreadable_files_and_folders_are_entries_with_a_reason(root: Path) -> None:
    (root / "file").write_text("x")
    (root / "file").chmod(0)
    (root / "folder").mkdir()
    (root / "folder/inside").write_text("x")
    (root / "folder").chmod(0)
    try:
        if os.geteuid() == 0:
            assert [entry.kind for entry in listed(root).values()] == [Kind.FILE, Kind.FILE]
            fd = os.open(root, os.O_RDONLY)
            _, written = child.run(AS_OTHER_USER, fd, pass_fds=(fd,))
            os.close(fd)
            report = written.decode().strip()
        else:
            with FolderTree.at(root) as tree:
                report = repr(([entry.kind.value for entry in tree.entries()], sorted(tree.problems)))
        assert report == "(['special', 'special'], [b'file', b'folder'])"
    finally:
        (root / "folder").chmod(0o755)


class TestOverlay:
    """Entries that the upper layer does not contain are not read again."""

    def test_unchanged_files_are_not_read(self, root: Path, tmp_path: Path) -> None:
        for name in ("kept", "changed", "sub/kept", "sub/changed", "other/kept"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("merged")
        upper = tmp_path / "upper"
        (upper / "sub").mkdir(parents=True)
        for name in ("changed", "sub/changed", "sub/gone"):
            (upper / name).write_text("merged")
        known = {path: Entry(path, Kind.FILE, False, 1, "known") for path in listed(root)}
        known[b"sub/gone"] = Entry(b"sub/gone", Kind.FILE, False, 1, "known")
        upper_fd = os.open(upper, os.O_RDONLY)
        tree = FolderTree(os.open(root, os.O_RDONLY), known=known, changed_fd=upper_fd)
        fresh = hashlib.sha256(b"merged").hexdigest()
        assert [(entry.path, entry.sha256) for entry in tree.entries()] == [
            (b"changed", fresh),
            (b"kept", "known"),
            (b"other/kept", "known"),
            (b"sub/changed", fresh),
            (b"sub/kept", "known"),
        ]
        tree.close()
        os.close(upper_fd)

    def test_upper_layer_without_the_folder_changes_nothing(self, root: Path) -> None:
        known = {b"a": Entry(b"a", Kind.FILE, False, 1, "known")}
        with FolderTree(os.open(root, os.O_RDONLY), known=known, changed_fd=NOTHING_CHANGED) as tree:
            assert list(tree.entries()) == list(known.values())

    def test_unknown_file_is_read(self, root: Path, tmp_path: Path) -> None:
        (root / "new").write_text("x")
        upper_fd = os.open(tmp_path, os.O_RDONLY)
        with FolderTree(os.open(root, os.O_RDONLY), known={}, changed_fd=upper_fd) as tree:
            assert [entry.path for entry in tree.entries()] == [b"new"]
        os.close(upper_fd)

    def test_known_entries_count_against_the_limits(self, root: Path) -> None:
        known = {path: Entry(path, Kind.FILE, False, 1, "known") for path in (b"a", b"b")}
        limits = TreeLimits(entries=1)
        fd = os.open(root, os.O_RDONLY)
        with (
            FolderTree(fd, known=known, changed_fd=NOTHING_CHANGED, limits=limits) as tree,
            pytest.raises(TreeTooLarge),
        ):
            list(tree.entries())

    def test_known_and_changed_fd_must_be_passed_together(self) -> None:
        with pytest.raises(ValueError, match="must be passed together"):
            FolderTree(0, owns=False, known={})


class TestQuickListing:
    """Files are read again only if their inode, size, mode or change time differs."""

    def test_unchanged_files_are_not_read_again(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (root / "a").write_text("1")
        (root / "link").symlink_to("a")
        with FolderTree.at(root) as tree:
            wait_for_clock()
            first = list(tree.quick_entries())
            assert first == list(tree.entries())
            monkeypatch.setattr(tree, "_entry_of", lambda *_: pytest.fail("read again"))
            assert list(tree.quick_entries()) == first

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(
        st.lists(
            st.sampled_from(["write", "touch", "chmod", "swap", "remove", "link", "rename over", "wait"]), max_size=8
        )
    )
    def test_every_change_is_found(self, root: Path, changes: list[str]) -> None:
        shutil.rmtree(root)
        for folder in ("x", "y"):
            (root / folder).mkdir(parents=True)
            (root / folder / "f").write_text(folder)
        with FolderTree.at(root) as tree:
            for number, change in enumerate(changes):
                _change(root, change, number)
                assert list(tree.quick_entries()) == list(tree.entries())


def wait_for_clock() -> None:
    """Wait until the files written so far are old enough to be remembered."""
    time.sleep(0.05)


def _change(root: Path, change: str, number: int) -> None:
    file = root / "x" / "f"
    if change == "swap":
        (root / "x").rename(root / "z")
        (root / "y").rename(root / "x")
        (root / "z").rename(root / "y")
    elif change == "wait":
        wait_for_clock()
    elif change == "remove":
        file.unlink(missing_ok=True)
    elif change == "link":
        file.unlink(missing_ok=True)
        file.symlink_to(f"{number}")
    elif change == "rename over":
        (root / "new").write_text(f"{number}")
        (root / "new").rename(file)
    elif file.is_file():
        if change == "write":
            file.write_text(f"{number % 10}")
        elif change == "touch":
            os.utime(file, ns=(0, 0))
        else:
            file.chmod(0o755 if number % 2 else 0o644)


def test_tree_digest_depends_on_content_mode_kind_and_path() -> None:
    base = Entry(b"a", Kind.FILE, False, 1, "aa")
    variants = [
        base,
        Entry(b"b", Kind.FILE, False, 1, "aa"),
        Entry(b"a", Kind.FILE, True, 1, "aa"),
        Entry(b"a", Kind.SYMLINK, False, 1, "aa"),
        Entry(b"a", Kind.FILE, False, 1, "bb"),
    ]
    assert len({tree_digest([entry]) for entry in variants}) == len(variants)
    assert tree_digest([variants[0], variants[1]]) == tree_digest([variants[1], variants[0]])
