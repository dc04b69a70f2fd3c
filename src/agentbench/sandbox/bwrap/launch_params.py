"""Launch parameters of a bubblewrap sandbox, and the command line that they become."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.sandbox.bwrap.etc_folder import SERVER_DIR
from agentbench.sandbox.bwrap.spawn.child import DISK, MERGED, SOURCES
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.layout import COMMAND_ENV, DOWNLOADS, ENV_DIR, HOME, INNER_ID, refuse_system_path
from agentbench.tree.entry import Entry

_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_MASKED = (
    *("keys", "key-users", "kallsyms", "modules", "cmdline", "config.gz", "sched_debug", "latency_stats"),
    *("timer_list", "interrupts", "kcore"),
)
_MASKED_FOLDERS = ("acpi", "asound", "scsi")
_SYSTEM_TREES = (
    *("/usr", "/etc", "/proc", "/dev", "/sys", "/run", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/var", ENV_DIR),
)
_SYSTEM_FOLDERS = ("/", "/tmp", "/opt", "/home", "/root", HOME)


@dataclass(frozen=True, slots=True)
class LaunchParams:
    """Launch parameters of one sandbox that its spec does not contain."""

    layers: tuple[Path, ...]
    known: Mapping[bytes, Entry] | None = None
    """The workspace's entries in those layers, if they were recorded."""
    folders: tuple[str, ...] = ("workspace", "home", "env")
    binds: list[tuple[Path, str]] = field(default_factory=list)
    """(host path, path inside), read-only."""
    env: Mapping[str, str] = field(default_factory=dict)
    python: Interpreter | None = None
    """None: the interpreter that the spec asks for."""


@dataclass(slots=True)
class BwrapOptions:
    """Everything about one sandbox that shows on bubblewrap's command line."""

    bwrap: str
    workdir: str
    python: str
    network: bool = False
    folders: tuple[str, ...] = ("workspace", "home", "env")
    etc: Path = Path("/etc")
    binds: list[tuple[Path, str]] = field(default_factory=list)
    """(host path, path inside), read-only."""
    server_options: Mapping[str, str] = field(default_factory=dict)
    seccomp: bool = True
    """Bubblewrap applies the system call filter. A command server that observes programs applies its own."""
    can_disable_userns: bool = True
    """Bubblewrap 0.8 or newer. The system call filter refuses new namespaces as well."""

    def sources(self) -> list[str]:
        """Return the host paths to bind into the staging folder, in the order of their names there."""
        own = [] if self.bwrap.startswith("/usr/") else [self.bwrap]
        return [str(self.etc), *(str(source) for source, _ in self.binds), *own]

    def program(self) -> str:
        """Return the path of bubblewrap as seen from the staging mounts.

        Outside /usr it could be hidden by the staging folder or unreachable for the sandbox's user, so it is bound too.
        """
        return self.bwrap if self.bwrap.startswith("/usr/") else f"{SOURCES}/{len(self.binds) + 1}"


def check_workdir(workdir: str) -> None:
    """
    Raises:
        SandboxUnavailable: this backend cannot place the workspace at that path.
    """
    refuse_system_path(workdir, _SYSTEM_TREES, _SYSTEM_FOLDERS, "bwrap")


def bwrap_argv(options: BwrapOptions) -> list[str]:
    """Return the command line. The child replaces `{info}` and `{seccomp}` with file descriptors."""
    argv = [options.program(), "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv.append("--unshare-cgroup-try")
    if not options.network:
        argv.append("--unshare-net")
    argv += ["--uid", str(INNER_ID), "--gid", str(INNER_ID), "--hostname", "sandbox"]
    argv += ["--new-session", "--die-with-parent", "--cap-drop", "ALL", "--info-fd", "{info}"]
    if options.can_disable_userns:
        argv.append("--disable-userns")
    if options.seccomp:
        argv += ["--seccomp", "{seccomp}"]
    argv += _system_mounts()
    argv += ["--ro-bind", f"{SOURCES}/0", "/etc"]
    argv += ["--bind", f"{DISK}/shm", "/dev/shm", "--bind", f"{DISK}/tmp", "/tmp"]
    argv += ["--symlink", "/tmp", "/var/tmp", "--dir", "/run"]
    targets = {"workspace": options.workdir, "home": HOME, "env": ENV_DIR, "downloads": DOWNLOADS}
    for name in sorted(options.folders, key=lambda folder: targets[folder].count("/")):  # outer before inner
        argv += ["--bind", f"{MERGED}/{name}", targets[name]]
    for index, (_, target) in enumerate(options.binds, start=1):
        argv += ["--ro-bind", f"{SOURCES}/{index}", target]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
    server_options = {"workdir": options.workdir, "server_dir": SERVER_DIR, **options.server_options}
    server = [f"{key}={value}" for key, value in server_options.items()]
    return [*argv, "--as-pid-1", "--", options.python, "-I", "-S", f"{SERVER_DIR}/server.pyc", *server]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of commands.

    The command server gets none of it: a contract's variables (a preloaded library, for example) must not affect PID 1.
    """
    path = f"{ENV_DIR}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
    return {"PATH": path, "LANG": "C.UTF-8", **COMMAND_ENV, **extra}


def _system_mounts() -> list[str]:
    argv = ["--ro-bind", "/usr", "/usr"]
    for name in _TOP_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            argv += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            argv += ["--ro-bind", path, path]
    argv += ["--proc", "/proc", "--dev", "/dev"]
    for name in _MASKED:
        # Each mask costs a mount, so only files that an unprivileged user could read are masked.
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
