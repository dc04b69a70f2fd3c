"""The options of a container: everything that holds it in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.command import MIB
from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox import seccomp
from agentbench.sandbox.docker.channel_socket import NAME as SOCKET_NAME
from agentbench.sandbox.layout import ENV_DIR, HOME, INNER_ID
from agentbench.sandbox.protocol import SandboxSpec

SERVER_DIR = "/opt/agentbench"
LINK_DIR = f"{SERVER_DIR}/link"
SEEDS = f"{SERVER_DIR}/seeds"
CARRIED = f"{SERVER_DIR}/python"
FILTER = f"{SERVER_DIR}/filter"
"""Our own system call filter: the server puts it on top of the engine's, which differs between engines."""
USER = f"{INNER_ID}:{INNER_ID}"
_OPEN_FILES = 16384
_RESERVED = ("/proc", "/dev", "/sys", "/run", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", SERVER_DIR, ENV_DIR)
_NOT_EXACTLY = ("/", "/tmp", "/var/tmp", "/opt", "/home", "/root", "/usr", "/var", HOME)
_RUN_MB = 16
_MEMORY_PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run")


@dataclass(slots=True)
class Birth:
    """What decides one container beyond its spec."""

    image: str
    python: tuple[str, ...]
    """How the interpreter of the server is started."""
    server: str
    """What runs commands, in words."""
    binds: list[tuple[Path, str]] = field(default_factory=list)
    network: str = "none"
    labels: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False
    """Left in place when it ended, to be committed."""
    seeds_mb: int | None = None
    """The image keeps what can be written as seeds, of this size together, for file systems of their own."""


def check_workdir(workdir: str) -> None:
    """
    Raises:
        SandboxUnavailable: the workspace cannot be there.
    """
    clean = os.path.normpath(workdir)
    under = next((top for top in _RESERVED if clean == top or clean.startswith(f"{top}/")), None)
    if under is not None or clean in _NOT_EXACTLY or clean.startswith(("/tmp/", "/var/tmp/")):
        msg = f"a container cannot have its workspace at {workdir}: {under or clean} belongs to the system"
        raise SandboxUnavailable(msg, remedy="use environment.workdir: /workspace (or any other path of its own)")


def container_config(spec: SandboxSpec, birth: Birth, link: Path, *, memory_held: bool = True) -> dict[str, Json]:
    """A container as the engine's interface wants it described.

    `memory_held`: the engine holds a memory limit; where it cannot, the server looks.
    """
    binds = [(link, LINK_DIR), *birth.binds, *((mount.source.absolute(), mount.target) for mount in spec.mounts)]
    return {
        "Image": birth.image,
        "Entrypoint": list(birth.python),
        "Cmd": [
            *server_arguments(spec.workdir),
            *([] if memory_held else [f"memory={spec.limits.memory_mb * MIB}"]),
        ],
        "User": USER,
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": dict(birth.labels),
        "Healthcheck": {"Test": ["NONE"]},
        # The first process ignores what it may ignore: an engine that shuts down need not wait for it.
        "StopSignal": "SIGKILL",
        "HostConfig": {
            "NetworkMode": birth.network,
            "IpcMode": "none",
            "LogConfig": {"Type": "none", "Config": {}},
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "AutoRemove": not birth.keep,
            "ReadonlyRootfs": birth.seeds_mb is not None,
            "Mounts": [
                {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True} for source, target in binds
            ],
            **_limits(spec, birth),
        },
    }


def server_arguments(workdir: str) -> list[str]:
    where = [f"socket={LINK_DIR}/{SOCKET_NAME}", f"workdir={workdir}", f"here={SERVER_DIR}"]
    if seccomp.supported():
        where.append(f"filter={FILTER}")
    return ["-I", "-S", f"{SERVER_DIR}/server.pyc", *where]


def environment(image_env: Sequence[str], more: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What commands see: the image's own variables, ours, and the contract's. Nothing of the host's."""
    env = dict(item.partition("=")[::2] for item in image_env)
    path = env.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    parts = [part for part in path.split(":") if part != f"{ENV_DIR}/bin"]
    env["PATH"] = ":".join([f"{ENV_DIR}/bin", *parts])
    ours = {"HOME": HOME, "USER": "agent", "LOGNAME": "agent", "SHELL": "/bin/sh", "TERM": "dumb", "TMPDIR": "/tmp"}
    env |= {**ours, "VIRTUAL_ENV": ENV_DIR, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    env.setdefault("LANG", "C.UTF-8")
    return env | dict(more)


def seeded_places(workdir: str) -> tuple[str, ...]:
    """What a sandbox's user can write, each a file system of its own when the disk limit has to be hard."""
    return (HOME, ENV_DIR) if workdir.startswith(f"{HOME}/") else (workdir, HOME, ENV_DIR)


def in_memory(spec: SandboxSpec, birth: Birth) -> tuple[str, ...]:
    """Places whose files live in memory."""
    return (*_MEMORY_PLACES, *(seeded_places(spec.workdir) if birth.seeds_mb is not None else ()))


def _limits(spec: SandboxSpec, birth: Birth) -> dict[str, Json]:
    limits = spec.limits
    # What is in a memory file system counts as memory, so the kernel's ceiling is both limits together.
    seeds_mb = birth.seeds_mb or 0
    memory = (limits.memory_mb + limits.disk_mb + seeds_mb) * MIB
    largest = limits.disk_mb * MIB
    common = f"rw,nosuid,nodev,nr_inodes={limits.inodes}"
    own, run = f"{common},size={limits.disk_mb}m,mode=1777", f"{common},size={_RUN_MB}m,noexec,mode=755"
    memory_files: dict[str, Json] = {
        "/tmp": f"{own},exec",
        "/var/tmp": f"{own},exec",
        "/dev/shm": f"{own},noexec",
        "/run": run,
    }
    if birth.seeds_mb is not None:
        seeded = f"{common},size={limits.disk_mb + seeds_mb}m,exec,mode=755,uid={INNER_ID},gid={INNER_ID}"
        memory_files |= dict.fromkeys(seeded_places(spec.workdir), seeded)
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": limits.pids,
        "NanoCpus": int(limits.cpus * 1e9),
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value}
            for name, value in (("core", 0), ("nofile", _OPEN_FILES), ("fsize", largest))
        ],
        "Tmpfs": memory_files,
    }
