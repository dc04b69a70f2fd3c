"""The options of a container: everything that holds it in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox import seccomp
from agentbench.sandbox.arguments import ENV_DIR
from agentbench.sandbox.docker.link import NAME as SOCKET_NAME
from agentbench.sandbox.etc import HOME, INNER_ID
from agentbench.sandbox.protocol import Limits, SandboxSpec

SERVER_DIR = "/opt/agentbench"
LINK_DIR = f"{SERVER_DIR}/link"
FILTER = f"{SERVER_DIR}/filter"
"""Our own system call filter: the server puts it on top of the engine's, which differs between engines."""
USER = f"{INNER_ID}:{INNER_ID}"
_OPEN_FILES = 16384
_RESERVED = ("/proc", "/dev", "/sys", "/run", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", SERVER_DIR, ENV_DIR)
_NOT_EXACTLY = ("/", "/tmp", "/var/tmp", "/opt", "/home", "/root", "/usr", "/var", HOME)
_RUN_MB = 16


@dataclass(slots=True)
class Birth:
    """What decides one container beyond its spec."""

    image: str
    python: str
    binds: list[tuple[Path, str]] = field(default_factory=list)
    network: str = "none"
    labels: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False
    """Left in place when it ended, to be committed."""


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


def container_options(name: str, spec: SandboxSpec, birth: Birth, link: Path) -> list[str]:
    """For `docker create` and `docker run`, up to and with the image and the server's arguments."""
    options = ["--name", name, "--hostname", "sandbox", "--user", USER, "--workdir", "/", "--pull", "never"]
    options += ["--network", birth.network, "--ipc", "none", "--log-driver", "none", "--no-healthcheck"]
    options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    # The first process ignores what it may ignore: an engine that shuts down need not wait for it.
    options += ["--stop-signal", "SIGKILL"]
    options += _limits(spec.limits)
    if not birth.keep:
        options.append("--rm")
    for key, value in birth.labels.items():
        options += ["--label", f"{key}={value}"]
    for source, target in [(link, LINK_DIR), *birth.binds]:
        options += ["--mount", _bind(source, target)]
    for mount in spec.mounts:
        options += ["--mount", _bind(mount.source.absolute(), mount.target)]
    return [*options, "--entrypoint", birth.python, birth.image, *server_arguments(spec.workdir)]


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


def _limits(limits: Limits) -> list[str]:
    # What is in a memory file system counts as memory, so the kernel's ceiling is both limits together.
    memory = f"{limits.memory_mb + limits.disk_mb}m"
    options = ["--memory", memory, "--memory-swap", memory, "--pids-limit", str(limits.pids)]
    options += ["--cpus", f"{limits.cpus:g}", "--ulimit", "core=0", "--ulimit", f"nofile={_OPEN_FILES}:{_OPEN_FILES}"]
    options += ["--ulimit", f"fsize={limits.disk_mb << 20}:{limits.disk_mb << 20}"]
    common = f"rw,nosuid,nodev,nr_inodes={limits.inodes}"
    for place, size, more in (
        ("/tmp", limits.disk_mb, "exec,mode=1777"),
        ("/var/tmp", limits.disk_mb, "exec,mode=1777"),
        ("/dev/shm", limits.disk_mb, "noexec,mode=1777"),
        ("/run", _RUN_MB, "noexec,mode=755"),
    ):
        options += ["--tmpfs", f"{place}:{common},size={size}m,{more}"]
    return options


def _bind(source: Path, target: str) -> str:
    """One field of comma-separated values, quoted so that any path fits."""
    fields = ["type=bind", f"source={source}", f"target={target}", "readonly"]
    return ",".join('"' + item.replace('"', '""') + '"' for item in fields)
