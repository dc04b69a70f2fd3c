"""The configuration of a container: its isolation, its limits, and the variables of its commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from agentbench.core.canonical import Json
from agentbench.core.command import MIB
from agentbench.core.dataclass import dataclass
from agentbench.sandbox import seccomp
from agentbench.sandbox.docker.channel_socket import SOCKET_NAME
from agentbench.sandbox.layout import COMMAND_ENV, ENV_DIR, HOME, INNER_ID, refuse_system_path
from agentbench.sandbox.observation import PLAIN_FILTER, server_options
from agentbench.sandbox.protocol import SandboxSpec
from agentbench.tree.entry import Entry

SERVER_DIR = "/opt/agentbench"
CHANNEL_DIR = f"{SERVER_DIR}/link"
SEEDS_DIR = f"{SERVER_DIR}/seeds"
BUNDLED_PYTHON_DIR = f"{SERVER_DIR}/python"
USER = f"{INNER_ID}:{INNER_ID}"
_OPEN_FILES = 16384
_SYSTEM_TREES = (
    *("/proc", "/dev", "/sys", "/run", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/tmp", "/var/tmp"),
    *(SERVER_DIR, ENV_DIR),
)
_SYSTEM_FOLDERS = ("/", "/opt", "/home", "/root", "/usr", "/var", HOME)
_RUN_MB = 16
_MEMORY_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run")


@dataclass(slots=True)
class ContainerParams:
    """Launch parameters of one container, besides its spec."""

    image: str
    python: tuple[str, ...]
    """The command that starts the server's interpreter."""
    server: str
    """Description of the interpreter that runs the command server."""
    known: Mapping[bytes, Entry] | None = None
    """The workspace's entries in the image, if they were recorded."""
    binds: list[tuple[Path, str]] = field(default_factory=list)
    network: str = "none"
    labels: Mapping[str, str] = field(default_factory=dict)
    create_workdir: bool = False
    """Create the workspace before the start, with the files of `source` if there is one."""
    source: Path | None = None
    keep: bool = False
    """Keep the container after it has ended, to commit it."""
    seeds_mb: int | None = None
    """Size of the image's seeds, for a sandbox with a hard disk limit (see `Images.seeded`)."""


def check_workdir(workdir: str) -> None:
    """
    Raises:
        SandboxUnavailable: a container cannot have its workspace there.
    """
    refuse_system_path(workdir, _SYSTEM_TREES, _SYSTEM_FOLDERS, "docker")


def container_config(
    spec: SandboxSpec, params: ContainerParams, channel_folder: Path, *, engine_limits_memory: bool = True
) -> dict[str, Json]:
    """Return the configuration of a container for the engine's HTTP API.

    If the engine cannot enforce a memory limit, the command server monitors memory.
    """
    binds = [
        (channel_folder, CHANNEL_DIR),
        *params.binds,
        *((mount.source.absolute(), mount.target) for mount in spec.mounts),
    ]
    return {
        "Image": params.image,
        "Entrypoint": list(params.python),
        "Cmd": [
            *_server_arguments(spec),
            *([] if engine_limits_memory else [f"memory={spec.limits.memory_mb * MIB}"]),
        ],
        "User": USER,
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": dict(params.labels),
        "Healthcheck": {"Test": ["NONE"]},
        # The first process ignores other signals; an engine that shuts down need not wait for it.
        "StopSignal": "SIGKILL",
        "HostConfig": {
            "NetworkMode": params.network,
            "IpcMode": "none",
            "LogConfig": {"Type": "none", "Config": {}},
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "AutoRemove": not params.keep,
            "ReadonlyRootfs": params.seeds_mb is not None,
            "Mounts": [
                {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True} for source, target in binds
            ],
            **_limits(spec, params),
        },
    }


def _server_arguments(spec: SandboxSpec) -> list[str]:
    options = {"socket": f"{CHANNEL_DIR}/{SOCKET_NAME}", "workdir": spec.workdir, "server_dir": SERVER_DIR}
    options |= server_options(spec.phase, SERVER_DIR)
    if seccomp.supported():
        # The server adds the harness's filter to the engine's own. Engines differ in theirs.
        options["filter"] = f"{SERVER_DIR}/{PLAIN_FILTER}"
    return ["-I", "-S", f"{SERVER_DIR}/server.pyc", *(f"{key}={value}" for key, value in options.items())]


def environment(image_env: Sequence[str], contract_env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of commands: the image's, the harness's and the contract's, and none of the host's."""
    env = dict(item.partition("=")[::2] for item in image_env)
    path = env.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    parts = [part for part in path.split(":") if part != f"{ENV_DIR}/bin"]
    env["PATH"] = ":".join([f"{ENV_DIR}/bin", *parts])
    return {"LANG": "C.UTF-8", **env, **COMMAND_ENV, **contract_env}


def seeded_folders(workdir: str) -> tuple[str, ...]:
    """Return the folders that a sandbox's user can write to. Under a hard disk limit each is its own tmpfs."""
    return (HOME, ENV_DIR) if workdir.startswith(f"{HOME}/") else (workdir, HOME, ENV_DIR)


def memory_folders(spec: SandboxSpec, params: ContainerParams) -> tuple[str, ...]:
    """Return the folders whose files are in memory."""
    return (*_MEMORY_FOLDERS, *(seeded_folders(spec.workdir) if params.seeds_mb is not None else ()))


def _limits(spec: SandboxSpec, params: ContainerParams) -> dict[str, Json]:
    limits = spec.limits
    # Files in a tmpfs count as memory, so the kernel's limit is the sum of both limits.
    memory = (limits.memory_mb + limits.disk_mb + (params.seeds_mb or 0)) * MIB
    common = f"rw,nosuid,nodev,nr_inodes={limits.inodes}"
    shared = f"{common},size={limits.disk_mb}m,mode=1777"
    tmpfs: dict[str, Json] = {
        "/tmp": f"{shared},exec",
        "/var/tmp": f"{shared},exec",
        "/dev/shm": f"{shared},noexec",
        "/run": f"{common},size={_RUN_MB}m,noexec,mode=755",
    }
    if params.seeds_mb is not None:
        seeded = f"{common},size={limits.disk_mb + params.seeds_mb}m,exec,mode=755,uid={INNER_ID},gid={INNER_ID}"
        tmpfs |= dict.fromkeys(seeded_folders(spec.workdir), seeded)
    return {
        "Memory": memory,
        "MemorySwap": memory,
        "PidsLimit": limits.pids,
        "NanoCpus": int(limits.cpus * 1e9),
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value}
            for name, value in (("core", 0), ("nofile", _OPEN_FILES), ("fsize", limits.disk_mb * MIB))
        ],
        "Tmpfs": tmpfs,
    }
