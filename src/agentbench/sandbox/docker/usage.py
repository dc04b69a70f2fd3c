"""Measure what a container uses: from its cgroups and its writable layer if the host shows them, else through the engine."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.sandbox.cgroups import oom_kills, read_text, usage_files
from agentbench.sandbox.docker.engine import Engine, EngineFacts
from agentbench.sandbox.memory_limit import MemoryGauge

_MAX_FILES = 500_000
_MAX_DEPTH = 256
"""The kernel looks up every folder of a path, so measuring deep folders takes long. A project has some tens."""
_MAX_DESCRIPTORS = 20_000
"""Examined in one measurement."""


@dataclass(frozen=True, slots=True)
class LayerSize:
    """The size of a container's writable layer. None: unknown."""

    megabytes: float | None
    files: int | None
    too_deep: bool = False
    """Folders are nested so deeply that not everything could be measured."""


class Meter:
    def __init__(self, engine: Engine, name: str, pid: int) -> None:
        """`pid`: the container's first process as seen from this host, or 0 if it is not visible."""
        self._engine = engine
        self._name = name
        self._pid = pid
        self._files: Mapping[str, str] = _cgroup_files(engine.facts, pid) if pid else {}
        self._upper = _upper_folder(pid) if pid else None

    @property
    def cheap(self) -> bool:
        """True if the disk can be measured without asking the engine."""
        return self._upper is not None

    def gauge(self, limit_bytes: int, memory_folders: Sequence[str]) -> MemoryGauge:
        """Return a gauge of the programs' memory. `memory_folders`: folders inside whose files are in memory."""
        folders = [f"/proc/{self._pid}/root{folder}" for folder in memory_folders]
        return MemoryGauge(self._files, limit_bytes, lambda: _tmpfs_bytes(folders))

    def oom_kills(self) -> int | None:
        return oom_kills(read_text(self._files["oom"])) if "oom" in self._files else None

    def values(self) -> dict[str, str]:
        """Return the contents of the cgroup files that state usage, by key."""
        return {key: read_text(path) for key, path in self._files.items() if key != "memory_stat"}

    def layer(self) -> LayerSize:
        """Measure the writable layer."""
        if self._upper is not None:
            size, count, too_deep = measure_folder(self._upper)
            return LayerSize((size + self._deleted_bytes()) / MIB, count, too_deep)
        done = self._engine.run("container", "inspect", "--size", "--format", "{{.SizeRw}}", self._name)
        size_text = done.stdout.kept.strip()
        return LayerSize(int(size_text) / MIB if done.ok and size_text.isdigit() else None, None)

    def _deleted_bytes(self) -> int:
        """Return the bytes of deleted files that are still open, as far as the harness may look (root may)."""
        if "pids" not in self._files:
            return 0
        members = read_text(os.path.join(os.path.dirname(self._files["pids"]), "cgroup.procs")).split()
        # In random order, so that a process cannot hide files behind more descriptors than are examined.
        random.shuffle(members)
        return _open_deleted_bytes(members, f"/proc/{self._pid}/root")


def _open_deleted_bytes(pids: Sequence[str], root: str) -> int:
    sizes: dict[int, int] = {}
    examined = 0
    try:
        device = os.stat(root).st_dev
    except OSError:
        return 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                examined += 1
                with contextlib.suppress(OSError):
                    info = os.stat(f"/proc/{pid}/fd/{fd}")
                    # Only on the layer's device: files in a tmpfs have their own limit.
                    if info.st_nlink == 0 and info.st_dev == device and stat.S_ISREG(info.st_mode):
                        sizes[info.st_ino] = info.st_blocks * 512
        if examined > _MAX_DESCRIPTORS:
            break
    return sum(sizes.values())


def _cgroup_files(facts: EngineFacts, pid: int) -> dict[str, str]:
    """Return the files of the container's own cgroups.

    An engine that creates none (rootless without delegation) leaves the container in a cgroup that it shares with others.
    """
    limited = {"cpu": facts.cpu_limit, "pids": facts.pids_limit}
    return {key: path for key, path in usage_files(pid).items() if limited.get(key, facts.memory_limit)}


def _upper_folder(pid: int) -> Path | None:
    """Return the folder of a container's writable layer, from its mount table."""
    for line in read_text(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) > 4 and fields[4] == "/" and len(rest) > 2 and rest[0] == "overlay":
            for option in rest[2].split(","):
                key, _, value = option.partition("=")
                if key == "upperdir" and os.access(value, os.R_OK | os.X_OK):
                    return Path(value)
    return None


def measure_folder(top: Path) -> tuple[int, int, bool]:
    """Measure a folder that may be changing: bytes on disk, files, and whether folders are too deep. No file is opened."""
    total = count = 0
    too_deep = False
    linked: set[int] = set()
    folders = [(os.fspath(top), 0)]
    while folders and count < _MAX_FILES:
        folder, depth = folders.pop()
        if depth > _MAX_DEPTH:
            too_deep = True
            continue
        try:
            with os.scandir(folder) as items:
                for item in items:
                    count += 1
                    if item.is_dir(follow_symlinks=False):
                        folders.append((item.path, depth + 1))
                    else:
                        total += _size_on_disk(item, linked)
        except OSError as error:
            too_deep |= error.errno == errno.ENAMETOOLONG
    return total, count, too_deep


def _size_on_disk(item: os.DirEntry[str], linked: set[int]) -> int:
    """Return the bytes that a file occupies, or 0 if it was deleted meanwhile.

    `linked`: inodes of files with several hard links that were counted.
    """
    try:
        info = item.stat(follow_symlinks=False)
    except OSError:
        return 0
    if info.st_nlink > 1:
        if info.st_ino in linked:
            return 0
        linked.add(info.st_ino)
    return info.st_blocks * 512


def _tmpfs_bytes(folders: Sequence[str]) -> int | None:
    """Return the bytes used in tmpfs folders, or None if the harness may not look (root may)."""
    try:
        systems = [os.statvfs(folder) for folder in folders]
    except OSError:
        return None
    return sum((system.f_blocks - system.f_bfree) * system.f_frsize for system in systems)
