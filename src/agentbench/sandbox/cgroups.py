"""Control groups: where ours go, what is written into them, what is read back.

Version 1 hierarchies (as root), version 2 with delegation, or none: then the caller falls back to weaker means and says
so. Nothing here creates a group: the spawner does, from the plan made here, so that it can also remove them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.sandbox.protocol import Limits

_PERIOD_US = 100_000
_CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy in which we may make groups below `parent`."""

    version: int
    parent: Path
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups of one sandbox: folder -> files to write."""

    settings: Mapping[str, Sequence[tuple[str, str]]]
    files: Mapping[str, str] = field(default_factory=dict)
    """Meaning -> file that holds the number: `memory`, `memory_peak`, `oom`, `pids`, `cpu`."""


class Cgroups:
    """The groups of one owner. `discover` finds out what is possible here."""

    def __init__(self, hierarchies: Sequence[Hierarchy], owner: str) -> None:
        self._hierarchies = tuple(hierarchies)
        self._owner = owner

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset().union(*(hierarchy.controllers for hierarchy in self._hierarchies))

    @property
    def version(self) -> int | None:
        return self._hierarchies[0].version if self._hierarchies else None

    def owner_dirs(self) -> list[Path]:
        return [hierarchy.parent / f"agentbench-{self._owner}" for hierarchy in self._hierarchies]

    def create_owner_dirs(self) -> None:
        for hierarchy, folder in zip(self._hierarchies, self.owner_dirs(), strict=True):
            folder.mkdir(exist_ok=True)
            if hierarchy.version == 2:
                wanted = " ".join(f"+{name}" for name in sorted(hierarchy.controllers))
                (folder / "cgroup.subtree_control").write_text(wanted)

    def plan(self, name: str, limits: Limits, memory_bytes: int) -> Plan:
        settings: dict[str, list[tuple[str, str]]] = {}
        files: dict[str, str] = {}
        for hierarchy, owner in zip(self._hierarchies, self.owner_dirs(), strict=True):
            folder = str(owner / name)
            if hierarchy.version == 1:
                settings[folder] = _v1(hierarchy, limits, memory_bytes)
            else:
                settings[folder] = _v2(hierarchy.controllers, limits, memory_bytes)
            files.update({key: f"{folder}/{file}" for key, file in _files(hierarchy).items()})
        return Plan(settings, files)


def _v1(hierarchy: Hierarchy, limits: Limits, memory_bytes: int) -> list[tuple[str, str]]:
    controllers = hierarchy.controllers
    settings = []
    if "memory" in controllers:
        settings.append(("memory.limit_in_bytes", str(memory_bytes)))
        if (hierarchy.parent / "memory.memsw.limit_in_bytes").exists():
            settings.append(("memory.memsw.limit_in_bytes", str(memory_bytes)))
    if "pids" in controllers:
        settings.append(("pids.max", str(limits.pids)))
    if "cpu" in controllers:
        settings.append(("cpu.cfs_period_us", str(_PERIOD_US)))
        settings.append(("cpu.cfs_quota_us", str(max(1000, int(limits.cpus * _PERIOD_US)))))
    return settings


def _v2(controllers: frozenset[str], limits: Limits, memory_bytes: int) -> list[tuple[str, str]]:
    settings = []
    if "memory" in controllers:
        settings += [("memory.max", str(memory_bytes)), ("memory.swap.max", "0")]
    if "pids" in controllers:
        settings.append(("pids.max", str(limits.pids)))
    if "cpu" in controllers:
        settings.append(("cpu.max", f"{max(1000, int(limits.cpus * _PERIOD_US))} {_PERIOD_US}"))
    return settings


def _files(hierarchy: Hierarchy) -> dict[str, str]:
    if hierarchy.version == 1:
        known = {
            "memory": {"memory": "memory.usage_in_bytes", "memory_peak": "memory.max_usage_in_bytes"}
            | {"oom": "memory.oom_control", "memory_stat": "memory.stat"},
            "pids": {"pids": "pids.current"},
            "cpuacct": {"cpu": "cpuacct.usage"},
        }
    else:
        known = {
            "memory": {"memory": "memory.current", "memory_peak": "memory.peak"}
            | {"oom": "memory.events", "memory_stat": "memory.stat"},
            "pids": {"pids": "pids.current"},
            "cpu": {"cpu": "cpu.stat"},
        }
    return {key: file for name in hierarchy.controllers for key, file in known.get(name, {}).items()}


def oom_kills(text: str) -> int | None:
    """From memory.oom_control (v1) or memory.events (v2)."""
    return _keyed(text, "oom_kill")


def cpu_seconds(text: str) -> float | None:
    """From cpuacct.usage (v1, nanoseconds) or cpu.stat (v2)."""
    if text.strip().isdigit():
        return int(text) / 1e9
    used = _keyed(text, "usage_usec")
    return None if used is None else used / 1e6


def program_memory(text: str) -> tuple[int, int]:
    """From memory.stat: bytes with no file behind them, and shared ones (files in memory among them)."""
    private = _keyed(text, "anon")
    return _keyed(text, "rss") or 0 if private is None else private, _keyed(text, "shmem") or 0


def megabytes(text: str) -> float | None:
    return int(text) / MIB if text.strip().isdigit() else None


def _keyed(text: str, key: str) -> int | None:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return None


def usage_files(pid: int) -> dict[str, str]:
    """The files that tell what the groups of a process use, by meaning, as far as this process can see them."""
    own = _own_groups(_slurp(f"/proc/{pid}/cgroup"))
    found: dict[str, str] = {}
    for point, root, kind, options in _cgroup_mounts(_slurp("/proc/self/mountinfo")):
        controllers = frozenset(options) & frozenset(_CONTROLLERS) if kind == "cgroup" else frozenset(_CONTROLLERS)
        group = next((own[name] for name in controllers if name in own), None) if kind == "cgroup" else own.get("")
        if not group or group == "/":
            continue
        hierarchy = Hierarchy(1 if kind == "cgroup" else 2, _below(point, root, group), controllers)
        for key, name in _files(hierarchy).items():
            path = hierarchy.parent / name
            if key not in found and os.access(path, os.R_OK):
                found[key] = str(path)
    return found


def discover(owner: str, *, mountinfo: str | None = None, membership: str | None = None) -> Cgroups:
    """What this process may use, found from its own mounts and membership (given only by tests)."""
    mountinfo = _slurp("/proc/self/mountinfo") if mountinfo is None else mountinfo
    membership = _slurp("/proc/self/cgroup") if membership is None else membership
    own = _own_groups(membership)
    first: list[Hierarchy] = []
    second: list[Hierarchy] = []
    taken: set[str] = set()
    for point, root, kind, options in _cgroup_mounts(mountinfo):
        if kind == "cgroup":
            controllers = frozenset(options) & frozenset(_CONTROLLERS) - taken
            folder = next((own[name] for name in controllers if name in own), None)
            if controllers and folder is not None and _writable(parent := _below(point, root, folder)):
                taken |= controllers
                first.append(Hierarchy(1, parent, controllers))
        elif "" in own:
            hierarchy = _unified(Path(point), _below(point, root, own[""]))
            if hierarchy is not None:
                second.append(hierarchy)
    return Cgroups(first or second[:1], owner)


def _unified(top: Path, own: Path) -> Hierarchy | None:
    """A v2 folder whose children get controllers and that holds no process of its own: ours when delegated, or the top."""
    for parent in dict.fromkeys((own, own.parent, top)):
        if top not in (parent, *parent.parents) or not _writable(parent):
            continue
        available = frozenset(_slurp(parent / "cgroup.controllers").split())
        enabled = frozenset(_slurp(parent / "cgroup.subtree_control").split())
        wanted = available & frozenset(_CONTROLLERS)
        if not wanted:
            continue
        if wanted <= enabled:
            return Hierarchy(2, parent, wanted)
        # Controllers can be turned on only where no process lives (the true top is exempt).
        with contextlib.suppress(OSError):
            if parent == own:
                _move_out(own)
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(wanted)))
            return Hierarchy(2, parent, wanted)
    return None


def _move_out(own: Path) -> None:
    """Into a group of our own below, when nobody but us lives in a group that was delegated to us (`systemd-run --scope`)."""
    if _slurp(own / "cgroup.procs").split() != [str(os.getpid())]:
        return
    leaf = own / "agentbench-harness"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _own_groups(membership: str) -> dict[str, str]:
    """Controller (v2: the empty name) -> our group's path in its hierarchy."""
    own = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            own[name] = path
    return own


def _cgroup_mounts(mountinfo: str) -> list[tuple[str, str, str, list[str]]]:
    """(mount point, root of the mount in its hierarchy, type, super options)."""
    mounts = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind and kind[0] in {"cgroup", "cgroup2"}:
            mounts.append((fields[4], fields[3], kind[0], kind[2].split(",")))
    return mounts


def _below(point: str, root: str, folder: str) -> Path:
    """A group's folder under a mount that may show only a part of the hierarchy (in containers)."""
    relative = folder.removeprefix(root.rstrip("/")) if root != "/" else folder
    return Path(point + "/" + relative.strip("/")).resolve() if relative.strip("/") else Path(point)


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def _slurp(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
