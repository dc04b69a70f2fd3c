"""What a container uses: from its cgroups and its layer where the host shows them to us, else through the engine."""

from __future__ import annotations

import contextlib
import os
import random
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.sandbox.cgroups import cpu_seconds, megabytes, oom_kills, usage_files
from agentbench.sandbox.docker.engine import Engine, EngineFacts
from agentbench.sandbox.memory_limit import MemoryGauge
from agentbench.sandbox.protocol import Usage

_MOST_FILES = 500_000
_MOST_DESCRIPTORS = 20_000
"""Looked at each time."""


class Meter:
    def __init__(self, engine: Engine, name: str, pid: int) -> None:
        """`pid`: the container's first process as this host sees it; 0 when it does not."""
        self._engine = engine
        self._name = name
        self._pid = pid
        self._files: Mapping[str, str] = _own_files(engine.facts, pid) if pid else {}
        self._upper = _upper(pid) if pid else None

    @property
    def complete(self) -> bool:
        """True when nothing has to be asked inside."""
        return {"cpu", "memory", "pids"} <= set(self._files)

    @property
    def cheap(self) -> bool:
        """The disk can be measured without asking the engine."""
        return self._upper is not None

    def gauge(self, limit_bytes: int, in_memory: Sequence[str]) -> MemoryGauge | None:
        """What programs hold, where the container's cgroup can be seen; `in_memory`: where files inside are memory."""
        places = [f"/proc/{self._pid}/root{place}" for place in in_memory]
        found = MemoryGauge(self._files, limit_bytes, lambda: _written(places))
        return found if found.works else None

    def oom_kills(self) -> int | None:
        return oom_kills(_slurp(self._files["oom"])) if "oom" in self._files else None

    def usage(self, inside: list[float]) -> Usage:
        """`inside`: processes, bytes, microseconds as the server counts them; may be empty."""
        read = {key: _slurp(path) for key, path in self._files.items() if key != "memory_stat"}
        cpu, memory = cpu_seconds(read.get("cpu", "")), megabytes(read.get("memory", ""))
        pids = read.get("pids", "").strip()
        return Usage(
            cpu_sec=inside[2] / 1e6 if cpu is None and inside else cpu,
            memory_peak_mb=megabytes(read.get("memory_peak", "")),
            memory_mb=inside[1] / MIB if memory is None and inside else memory,
            disk_mb=self.disk_mb(),
            processes=int(pids) if pids.isdigit() else (int(inside[0]) if inside else None),
            oom_kills=oom_kills(read.get("oom", "")),
        )

    def disk_mb(self) -> float | None:
        return self.layer()[0]

    def layer(self) -> tuple[float | None, int | None]:
        """MB and files of the writable layer."""
        if self._upper is not None:
            size, count = _allocated(self._upper)
            return (size + self._nameless()) / MIB, count
        done = self._engine.call("container", "inspect", "--size", "--format", "{{.SizeRw}}", self._name)
        said = done.stdout.kept.strip()
        return int(said) / MIB if done.ok and said.isdigit() else None, None

    def _nameless(self) -> int:
        """Bytes of the layer's files that have no name any more and are held open, as far as we may look (root may)."""
        if "pids" not in self._files:
            return 0
        members = _slurp(os.path.join(os.path.dirname(self._files["pids"]), "cgroup.procs")).split()
        # Who holds more than is looked at cannot choose which ones are not.
        random.shuffle(members)
        return _held_open(members, f"/proc/{self._pid}/root")


def _held_open(pids: Sequence[str], root: str) -> int:
    found: dict[int, int] = {}
    looked = 0
    try:
        device = os.stat(root).st_dev
    except OSError:
        return 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                looked += 1
                with contextlib.suppress(OSError):
                    held = os.stat(f"/proc/{pid}/fd/{fd}")
                    # By device: files in memory have limits of their own.
                    if held.st_nlink == 0 and held.st_dev == device and stat.S_ISREG(held.st_mode):
                        found[held.st_ino] = held.st_blocks * 512
        if looked > _MOST_DESCRIPTORS:
            break
    return sum(found.values())


def _own_files(facts: EngineFacts, pid: int) -> dict[str, str]:
    """Of the container's own cgroups: where an engine makes none (rootless without delegation), it is in somebody else's."""
    held = {"cpu": facts.cpu_limit, "pids": facts.pids_limit}
    return {key: path for key, path in usage_files(pid).items() if held.get(key, facts.memory_limit)}


def _upper(pid: int) -> Path | None:
    """The folder of a container's writable layer, from its own mount table."""
    for line in _slurp(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(), right.split()
        if len(fields) > 4 and fields[4] == "/" and len(rest) > 2 and rest[0] == "overlay":
            for option in rest[2].split(","):
                key, _, value = option.partition("=")
                if key == "upperdir" and os.access(value, os.R_OK | os.X_OK):
                    return Path(value)
    return None


def _allocated(top: Path) -> tuple[int, int]:
    """Bytes on disk and files below a folder that somebody else may be changing. Counted, never opened."""
    total = count = 0
    folders = [os.fspath(top)]
    while folders and count < _MOST_FILES:
        try:
            with os.scandir(folders.pop()) as items:
                for item in items:
                    count += 1
                    if item.is_dir(follow_symlinks=False):
                        folders.append(item.path)
                    else:
                        total += item.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
    return total, count


def _written(places: Sequence[str]) -> int | None:
    """Bytes in file systems in memory, as far as we may look at them (root may)."""
    try:
        found = [os.statvfs(place) for place in places]
    except OSError:
        return None
    return sum((one.f_blocks - one.f_bfree) * one.f_frsize for one in found)


def _slurp(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
