"""The command line of bubblewrap."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.bwrap.etc_folder import HOME, INNER_ID, SERVER_DIR
from agentbench.sandbox.bwrap.spawn.launch import DISK, MERGED, SOURCES

ENV_DIR = "/opt/env"
DOWNLOADS = "/var/cache/pip"
_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_MASKED = (
    *("keys", "key-users", "kallsyms", "modules", "cmdline", "config.gz", "sched_debug", "latency_stats"),
    *("timer_list", "interrupts", "kcore"),
)
_MASKED_FOLDERS = ("acpi", "asound", "scsi")
_RESERVED = ("/usr", "/etc", "/proc", "/dev", "/sys", "/run", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/var")
_NOT_EXACTLY = ("/", "/tmp", "/opt", "/home", "/root", HOME, ENV_DIR)


@dataclass(slots=True)
class Layout:
    """What differs between sandboxes."""

    bwrap: str
    workdir: str
    python: str
    network: bool = False
    folders: tuple[str, ...] = ("workspace", "home", "env")
    etc: Path = Path("/etc")
    binds: list[tuple[Path, str]] = field(default_factory=list)
    """(host path, place inside), read-only."""
    server_options: Mapping[str, str] = field(default_factory=dict)
    seccomp: bool = True
    can_disable_userns: bool = True
    """Bubblewrap 0.8 or newer. The filter refuses new namespaces as well."""

    def sources(self) -> list[str]:
        """What is bound into the stage, in the order of its names there."""
        own = [] if self.bwrap.startswith("/usr/") else [self.bwrap]
        return [str(self.etc), *(str(source) for source, _ in self.binds), *own]

    def program(self) -> str:
        """Bubblewrap, also where the stage covers it or the sandbox's user could not get to it."""
        return self.bwrap if self.bwrap.startswith("/usr/") else f"{SOURCES}/{len(self.binds) + 1}"


def check_workdir(workdir: str) -> None:
    """
    Raises:
        SandboxUnavailable: the workspace cannot be seen at that path in this backend.
    """
    clean = os.path.normpath(workdir)
    under = next((top for top in _RESERVED if clean == top or clean.startswith(f"{top}/")), None)
    if under is not None or clean in _NOT_EXACTLY or clean.startswith(f"{ENV_DIR}/"):
        msg = f"the bubblewrap sandbox cannot place the workspace at {workdir}: {under or clean} belongs to the system"
        raise SandboxUnavailable(msg, remedy="use environment.workdir: /workspace (or any other path of its own)")


def bwrap_argv(layout: Layout) -> list[str]:
    argv = [
        layout.program(),
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    if not layout.network:
        argv.append("--unshare-net")
    argv += ["--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "sandbox"]
    argv += ["--new-session", "--die-with-parent", "--cap-drop", "ALL", "--info-fd", "{info}"]
    if layout.can_disable_userns:
        argv.append("--disable-userns")
    if layout.seccomp:
        argv += ["--seccomp", "{seccomp}"]
    argv += _system()
    argv += ["--ro-bind", f"{SOURCES}/0", "/etc"]
    argv += ["--bind", f"{DISK}/shm", "/dev/shm", "--bind", f"{DISK}/tmp", "/tmp"]
    argv += ["--symlink", "/tmp", "/var/tmp", "--dir", "/run"]
    places = {"workspace": layout.workdir, "home": HOME, "env": ENV_DIR, "downloads": DOWNLOADS}
    for name in sorted(layout.folders, key=lambda folder: places[folder].count("/")):  # outer before inner
        argv += ["--bind", f"{MERGED}/{name}", places[name]]
    for index, (_, place) in enumerate(layout.binds, start=1):
        argv += ["--ro-bind", f"{SOURCES}/{index}", place]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    options = {"workdir": layout.workdir, "here": SERVER_DIR, **layout.server_options}
    server = [f"{key}={value}" for key, value in options.items()]
    return [*argv, "--as-pid-1", "--", layout.python, "-I", "-S", f"{SERVER_DIR}/server.pyc", *server]


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """What commands get. The command server itself gets none of it: a contract's variables (a preloaded library, say)
    must not decide how PID 1 runs.
    """
    return {
        "PATH": f"{ENV_DIR}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "HOME": HOME,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",
        "VIRTUAL_ENV": ENV_DIR,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        **more,
    }


def _system() -> list[str]:
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _TOP_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for name in _MASKED:
        # Only what an unprivileged user could read at all: each mask costs a mount.
        if _mode(f"/proc/{name}") & 0o004:
            argv += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    for name in _MASKED_FOLDERS:
        if os.path.isdir(f"/proc/{name}"):
            argv += ["--tmpfs", f"/proc/{name}", "--remount-ro", f"/proc/{name}"]
    return argv


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0
