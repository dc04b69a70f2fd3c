"""Tests the isolation of a sandbox from inside. Run by `ab doctor`; prints `ok|weak<TAB>name<TAB>detail` per check.

Every check attempts the operation instead of asking whether it is allowed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import socket
import sys
from collections.abc import Callable

_SYSCALLS = {
    "x86_64": {"keyctl": 250, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "io_uring_setup": 425},
    "aarch64": {"keyctl": 219, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "io_uring_setup": 425},
}
_NEWUSER, _NEWNS, _REMOUNT = 0x10000000, 0x00020000, 0x20
_VSOCK = 40
_libc = ctypes.CDLL(None, use_errno=True)


def report(name: str, weak: str, fine: str) -> None:
    sys.stdout.write(f"{'weak' if weak else 'ok'}\t{name}\t{(weak or fine)[:200]}\n")


def status(pid: str = "self") -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}


def writable(path: str) -> bool:
    """Try to write a file that must not be writable. If that succeeds, its content stays the same."""
    try:
        with open(path, "r+", encoding="ascii") as file:
            file.write(file.read())
    except OSError:
        return False
    return True


def readable(path: str) -> bool:
    try:
        if os.path.isdir(path):
            return bool(os.listdir(path))
        with open(path, "rb") as file:
            file.read(1)
    except OSError:
        return False
    return True


def check_privileges() -> None:
    state = status()
    caps = [name for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb") if int(state.get(name, "1"), 16)]
    report("capabilities", f"has {', '.join(caps)}" if caps else "", "none")
    report(
        "new privileges",
        "" if state.get("NoNewPrivs") == "1" else "can be gained through set-uid programs",
        "cannot be gained",
    )
    report("user", "is root inside" if os.getuid() == 0 else "", f"uid {os.getuid()} inside")
    report("system call filter", "" if state.get("Seccomp") == "2" else "none", "on")
    allowed = [name for name, number in _SYSCALLS.get(platform.machine(), {}).items() if _is_allowed(number)]
    report(
        "kernel attack surface", f"{', '.join(allowed)} allowed" if allowed else "", "risky system calls are refused"
    )


def _is_allowed(number: int) -> bool:
    result = _libc.syscall(number, -1, 0, 0, 0, 0)
    return result >= 0 or ctypes.get_errno() not in (1, 13, 38)


def check_host_access() -> None:
    settings = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/overcommit_memory")
    written = [path for path in settings if writable(path)]
    report("kernel settings", f"{', '.join(written)} writable" if written else "", "not writable")
    remounted = _libc.mount(b"none", b"/", None, _REMOUNT, None) == 0
    mounted = _libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
    report("mounts", "can be changed" if remounted or mounted else "", "cannot be changed")
    nested = [name for name, flag in (("user", _NEWUSER), ("mount", _NEWNS)) if _unshares(flag)]
    report("nested namespaces", f"{', '.join(nested)} namespaces can be created" if nested else "", "cannot be created")
    paths = ("/etc/shadow", "/root", "/boot", "/sys/kernel/security", "/var/log", "/proc/kcore", "/var/run/docker.sock")
    visible = [path for path in paths if readable(path)]
    report("host files", f"{', '.join(visible)} readable" if visible else "", "not visible")
    written = [path for path in ("/", "/usr", "/etc", "/dev", "/usr/bin") if _creates(path)]
    report("system folders", f"{', '.join(written)} writable" if written else "", "read-only")


def _unshares(flag: int) -> bool:
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _libc.unshare(flag) == 0 else 1)
    return os.waitpid(pid, 0)[1] == 0


def _creates(folder: str) -> bool:
    path = f"{folder}/.agentbench-probe"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    except OSError:
        return False
    os.unlink(path)
    return True


def check_visibility() -> None:
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
    report("processes", f"{len(others)} others visible" if len(others) > 4 else "", "only its own are visible")
    names = [name for _, name in socket.if_nameindex()]
    report("network", f"interfaces {', '.join(names)}" if names not in ([], ["lo"]) else "", "loopback only")
    try:
        socket.socket(_VSOCK, socket.SOCK_STREAM).close()
    except OSError:
        report("hypervisor socket", "", "refused")
    else:
        report("hypervisor socket", "can be created", "")


def check_command_server() -> None:
    """Try to read the server's memory and to change its state. A change that succeeds sets what is already set."""
    exposed = [name for name in ("mem", "environ", "maps", "fd") if readable(f"/proc/1/{name}")]
    report("command server: memory", f"its {', '.join(exposed)} readable" if exposed else "", "not readable")
    nice = os.getpriority(os.PRIO_PROCESS, 1)
    changes = {
        "limits": lambda: resource.prlimit(1, resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE)),
        "scheduling": lambda: os.sched_setscheduler(1, os.sched_getscheduler(1), os.sched_getparam(1)),
        "processors": lambda: os.sched_setaffinity(1, os.sched_getaffinity(1)),
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, 1, nice),
        "priority by group": lambda: os.setpriority(os.PRIO_PGRP, 1, nice),
        "priority by user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), nice),
        "signals": lambda: os.kill(1, 0),
    }
    changed = [name for name, change in changes.items() if not _is_refused(change)]
    same_user = status("1")["Uid"] == status()["Uid"]
    protection = "system call rules by argument" if same_user else "another user"
    report("command server: control", f"its {', '.join(changed)} can be changed" if changed else "", protection)


def _is_refused(change: Callable[[], object]) -> bool:
    try:
        change()
    except OSError:
        return True
    return False


def check_sizes(limit_mb: int) -> None:
    for path in ("/tmp", "/dev/shm"):
        info = os.statvfs(path)
        size_mb = info.f_blocks * info.f_frsize >> 20
        weak = "" if size_mb <= limit_mb else f"{size_mb} MB, limit {limit_mb} MB"
        report(f"size of {path}", weak, f"at most {size_mb} MB")


def main() -> None:
    check_privileges()
    check_host_access()
    check_visibility()
    check_command_server()
    if int(sys.argv[1]):
        check_sizes(int(sys.argv[1]))


if __name__ == "__main__":
    main()
