"""On a real overlay, a walk with the shortcut gives the same entries as a full walk."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentbench.tree import overlay
from agentbench.tree.beneath import open_beneath
from agentbench.tree.folder import FolderTree
from tests.workspace import child

pytestmark = [pytest.mark.req("E-05a"), pytest.mark.component]

_NEWNS, _NEWUSER = 0x20000, 0x10000000
_PRIVATE = 0x40000 | 0x4000

Step = Callable[[Path, random.Random], None]


def pick(root: Path, chance: random.Random, *, folders: bool = False) -> Path:
    found = sorted(path for path in root.rglob("*") if path.is_dir() == folders and not path.is_symlink())
    return chance.choice(found) if found else root if folders else root / "new"


def rewrite(root: Path, chance: random.Random) -> None:
    pick(root, chance).write_text(str(chance.random()))


def create(root: Path, chance: random.Random) -> None:
    (pick(root, chance, folders=True) / f"n{chance.randrange(9)}").write_text(str(chance.random()))


def delete(root: Path, chance: random.Random) -> None:
    pick(root, chance).unlink(missing_ok=True)


def touch_mode(root: Path, chance: random.Random) -> None:
    target = pick(root, chance)
    if target.exists():
        target.chmod(chance.choice([0o644, 0o755]))


def move(root: Path, chance: random.Random) -> None:
    target = pick(root, chance)
    place = pick(root, chance, folders=True) / f"m{chance.randrange(9)}"
    if target.exists() and place.parent.is_dir() and not place.is_dir():
        target.rename(place)


def link(root: Path, chance: random.Random) -> None:
    target = root / f"l{chance.randrange(4)}"
    if not target.exists() and not target.is_symlink():
        target.symlink_to(chance.choice(["d0", "d0/d1/f0", "/etc/passwd"]))


def hard_link(root: Path, chance: random.Random) -> None:
    source, target = pick(root, chance), root / f"h{chance.randrange(4)}"
    if source.exists() and not target.exists():
        os.link(source, target)


def replace_folder(root: Path, chance: random.Random) -> None:
    folder = pick(root, chance, folders=True)
    if folder != root and folder.is_dir():
        shutil.rmtree(folder)
        if chance.random() < 0.6:
            folder.mkdir()
            (folder / "f0").write_text("again")
        elif chance.random() < 0.5:
            folder.write_text("a file now")


def move_folder(root: Path, chance: random.Random) -> None:
    folder = pick(root, chance, folders=True)
    target = root / f"d{chance.randrange(9)}x"
    if folder.is_dir() and folder != root and not target.exists():
        shutil.move(folder, target)


STEPS: tuple[Step, ...] = (
    rewrite, create, delete, touch_mode, move, link, hard_link, replace_folder, move_folder,
)  # fmt: skip


def same_file_by_swap(root: Path) -> None:
    """Change only the content, keeping size and times."""
    target = root / "d0/f0"
    info = target.stat()
    target.write_text(target.read_text()[::-1])
    os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))


def compare(base: Path, seed: int) -> str:
    """Make a random overlay and return the first difference, if any."""
    libc = ctypes.CDLL(None, use_errno=True)
    chance = random.Random(seed)
    place = base / str(seed)
    for name in ("lower", "upper", "work", "merged"):
        (place / name / "w" if name == "lower" else place / name).mkdir(parents=True)
    lower = place / "lower/w"
    for number in range(12):
        path = lower / "/".join(f"d{chance.randrange(3)}" for _ in range(chance.randrange(3))) / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{seed} {number}")
    (lower / "d0").mkdir(exist_ok=True)
    (lower / "d0/f0").write_text("swap")
    options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work,userxattr"
    if libc.mount(b"overlay", bytes(place / "merged"), b"overlay", 0, options.encode()) != 0:
        return f"mount: {os.strerror(ctypes.get_errno())}"
    with FolderTree.at(lower) as tree:
        known = {entry.path: entry for entry in tree.entries()}
    merged = place / "merged/w"
    same_file_by_swap(merged)
    for number in range(chance.randrange(1, 25)):
        chance.choice(STEPS)(merged, chance)
        upper = os.open(place / "upper/w", os.O_RDONLY)
        with (
            FolderTree.at(merged) as full,
            FolderTree(os.open(merged, os.O_RDONLY), known=known, changed_fd=upper) as quick,
        ):
            expected, found = list(full.entries()), list(quick.entries())
        os.close(upper)
        if expected != found:
            return f"seed {seed}, step {number}: {set(expected) ^ set(found)}"
    return ""


def in_a_namespace(base: Path, seeds: range) -> list[str]:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEWNS if user == 0 else _NEWNS | _NEWUSER) != 0:
        return [f"unshare: {os.strerror(ctypes.get_errno())}"]
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            Path("/proc/self", name).write_text(text)
    libc.mount(None, b"/", None, _PRIVATE, None)
    if libc.mount(b"tmpfs", bytes(base), b"tmpfs", 0, b"size=64m") != 0:
        return [f"mount: {os.strerror(ctypes.get_errno())}"]
    return [found for seed in seeds if (found := compare(base, seed))]


IN_A_NAMESPACE = """
import json, sys
from pathlib import Path
from tests.tree.test_overlay import in_a_namespace
print(json.dumps(in_a_namespace(Path(sys.argv[1]), range(25))))
"""


def test_every_way_to_change_a_file_is_detected(tmp_path: Path) -> None:
    code, written = child.run(IN_A_NAMESPACE, tmp_path)  # mounts live and die with the child's own namespace
    assert code == 0
    report = json.loads(written)
    if report and str(report[0]).startswith(("unshare:", "mount:")):
        pytest.skip(f"overlay mounts for a sandbox are not allowed here: {report[0]}")
    assert report == []


def test_deep_folders_are_read_without_opening_each_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel walks every part of a path, so thousands of nested folders would take minutes for each listing."""
    (tmp_path / "/".join("d" * 300)).mkdir(parents=True)
    (tmp_path / "/".join("d" * 300) / "f").write_text("deep")
    opened: list[bytes] = []

    def counting(dirfd: int, path: bytes, flags: int) -> int:
        opened.append(path)
        return open_beneath(dirfd, path, flags)

    monkeypatch.setattr(overlay, "open_beneath", counting)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with FolderTree.at(tmp_path) as whole:
            assert list(FolderTree(fd, owns=False, known={}, changed_fd=fd).entries()) == list(whole.entries())
    finally:
        os.close(fd)
    assert 0 < len(opened) <= overlay.MAX_DEPTH
