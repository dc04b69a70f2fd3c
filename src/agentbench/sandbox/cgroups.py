"""Control groups: finds usable hierarchies, plans a sandbox's groups and reads usage from them.

Supports version 1 hierarchies (as root) and version 2 with delegation. Where there is neither, the caller falls back to
weaker limits and reports that. Sandbox groups are not created here: the spawner creates them from a plan, so that it
can remove them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.sandbox.protocol import Limits

SOCKET_BYTES = 64 * MIB
"""Limit of network buffers in version 1, which does not charge them to memory: one sandbox must not take the host's share."""
_PERIOD_US = 100_000
_CONTROLLERS = ("memory", "pids", "cpu", "cpuacct")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy. The harness may create groups below `parent`."""

    version: int
    parent: Path
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class CgroupPlan:
    """The groups of one sandbox. `settings`: folder -> files to write."""

    settings: Mapping[str, Sequence[tuple[str, str]]]
    files: Mapping[str, str] = field(default_factory=dict)
    """`memory`, `memory_peak`, `memory_stat`, `oom`, `pids` or `cpu` -> the file to read it from."""


class Cgroups:
    """The groups of one owner, in the hierarchies that `discover` found."""

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
                _enable(folder, hierarchy.controllers)

    def plan(self, name: str, limits: Limits, memory_bytes: int) -> CgroupPlan:
        settings: dict[str, list[tuple[str, str]]] = {}
        files: dict[str, str] = {}
        for hierarchy, owner in zip(self._hierarchies, self.owner_dirs(), strict=True):
            folder = str(owner / name)
            if hierarchy.version == 1:
                settings[folder] = _settings_v1(hierarchy, limits, memory_bytes)
            else:
                settings[folder] = _settings_v2(hierarchy.controllers, limits, memory_bytes)
            files.update({key: f"{folder}/{file}" for key, file in _usage_file_names(hierarchy).items()})
        return CgroupPlan(settings, files)


def _settings_v1(hierarchy: Hierarchy, limits: Limits, memory_bytes: int) -> list[tuple[str, str]]:
    controllers = hierarchy.controllers
    settings = []
    if "memory" in controllers:
        settings.append(("memory.limit_in_bytes", str(memory_bytes)))
        if (hierarchy.parent / "memory.memsw.limit_in_bytes").exists():
            settings.append(("memory.memsw.limit_in_bytes", str(memory_bytes)))
        if (hierarchy.parent / "memory.kmem.tcp.limit_in_bytes").exists():
            settings.append(("memory.kmem.tcp.limit_in_bytes", str(SOCKET_BYTES)))
    if "pids" in controllers:
        settings.append(("pids.max", str(limits.pids)))
    if "cpu" in controllers:
        settings.append(("cpu.cfs_period_us", str(_PERIOD_US)))
        settings.append(("cpu.cfs_quota_us", str(max(1000, int(limits.cpus * _PERIOD_US)))))
    return settings


def _settings_v2(controllers: frozenset[str], limits: Limits, memory_bytes: int) -> list[tuple[str, str]]:
    settings = []
    if "memory" in controllers:
        settings += [("memory.max", str(memory_bytes)), ("memory.swap.max", "0")]
    if "pids" in controllers:
        settings.append(("pids.max", str(limits.pids)))
    if "cpu" in controllers:
        settings.append(("cpu.max", f"{max(1000, int(limits.cpus * _PERIOD_US))} {_PERIOD_US}"))
    return settings


def _usage_file_names(hierarchy: Hierarchy) -> dict[str, str]:
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
    """Parse memory.oom_control (v1) or memory.events (v2)."""
    return _keyed(text, "oom_kill")


def cpu_seconds(text: str) -> float | None:
    """Parse cpuacct.usage (v1, nanoseconds) or cpu.stat (v2)."""
    if text.strip().isdigit():
        return int(text) / 1e9
    used = _keyed(text, "usage_usec")
    return None if used is None else used / 1e6


def program_memory(text: str) -> tuple[int, int]:
    """Parse memory.stat: bytes of private memory, and bytes of shared memory (including files on a tmpfs)."""
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
    """Return the readable usage files of a process's groups, by key of `CgroupPlan.files`."""
    own = _own_groups(read_text(f"/proc/{pid}/cgroup"))
    files: dict[str, str] = {}
    for point, root, kind, options in _cgroup_mounts(read_text("/proc/self/mountinfo")):
        controllers = frozenset(options) & frozenset(_CONTROLLERS) if kind == "cgroup" else frozenset(_CONTROLLERS)
        group = next((own[name] for name in controllers if name in own), None) if kind == "cgroup" else own.get("")
        if not group or group == "/":
            continue
        hierarchy = Hierarchy(1 if kind == "cgroup" else 2, _below(point, root, group), controllers)
        for key, name in _usage_file_names(hierarchy).items():
            path = hierarchy.parent / name
            if key not in files and os.access(path, os.R_OK):
                files[key] = str(path)
    return files


def discover(owner: str, *, mountinfo: str | None = None, membership: str | None = None) -> Cgroups:
    """Find the hierarchies that this process may use, from its mounts and its membership (passed only by tests)."""
    mountinfo = read_text("/proc/self/mountinfo") if mountinfo is None else mountinfo
    membership = read_text("/proc/self/cgroup") if membership is None else membership
    own = _own_groups(membership)
    version_1: list[Hierarchy] = []
    version_2: list[Hierarchy] = []
    used: set[str] = set()
    for point, root, kind, options in _cgroup_mounts(mountinfo):
        if kind == "cgroup":
            controllers = frozenset(options) & frozenset(_CONTROLLERS) - used
            folder = next((own[name] for name in controllers if name in own), None)
            if controllers and folder is not None and _writable(parent := _below(point, root, folder)):
                used |= controllers
                version_1.append(Hierarchy(1, parent, controllers))
        elif "" in own:
            hierarchy = _find_v2(Path(point), _below(point, root, own[""]))
            if hierarchy is not None:
                version_2.append(hierarchy)
    return Cgroups(version_1 or version_2[:1], owner)


def _find_v2(top: Path, own: Path) -> Hierarchy | None:
    """Find a v2 group without processes whose children get controllers: the own group, its parent or the top."""
    for parent in dict.fromkeys((own, own.parent, top)):
        if top not in (parent, *parent.parents) or not _writable(parent):
            continue
        available = frozenset(read_text(parent / "cgroup.controllers").split())
        enabled = frozenset(read_text(parent / "cgroup.subtree_control").split())
        controllers = available & frozenset(_CONTROLLERS)
        if not controllers:
            continue
        if controllers <= enabled:
            return Hierarchy(2, parent, controllers)
        # Controllers can be enabled only in a group without processes (the real top is exempt).
        with contextlib.suppress(OSError):
            if parent == own:
                _move_to_child(own)
            _enable(parent, controllers)
            return Hierarchy(2, parent, controllers)
    return None


def _enable(group: Path, controllers: frozenset[str]) -> None:
    (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))


def _move_to_child(own: Path) -> None:
    """Move this process into a child group, if it is alone in a delegated group (`systemd-run --scope`)."""
    if read_text(own / "cgroup.procs").split() != [str(os.getpid())]:
        return
    leaf = own / "agentbench-harness"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))


def _own_groups(membership: str) -> dict[str, str]:
    """Return controller (v2: the empty name) -> path of this process's group in its hierarchy."""
    own = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            own[name] = path
    return own


def _cgroup_mounts(mountinfo: str) -> list[tuple[str, str, str, list[str]]]:
    """Return (mount point, root of the mount in its hierarchy, type, super options) of each mount."""
    mounts = []
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if kind and kind[0] in {"cgroup", "cgroup2"}:
            mounts.append((fields[4], fields[3], kind[0], kind[2].split(",")))
    return mounts


def _below(point: str, root: str, folder: str) -> Path:
    """Return a group's folder below a mount, which in containers may show only a part of the hierarchy."""
    relative = folder.removeprefix(root.rstrip("/")) if root != "/" else folder
    return Path(point + "/" + relative.strip("/")).resolve() if relative.strip("/") else Path(point)


def _writable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK)


def read_text(path: str | Path) -> str:
    """Return the text of a file, or nothing if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
