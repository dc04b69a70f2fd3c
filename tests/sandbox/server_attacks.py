"""Run inside a sandbox: tries to reach the command server in every known way. Prints the ways that were not refused."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)
_COLUMN = 0 if platform.machine() == "x86_64" else 1
_CALLS = {
    "get_robust_list": (274, 100),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kill": (62, 129),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "perf_event_open": (298, 241),
    "pidfd_open": (434, 434),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setpriority": (141, 140),
    "tgkill": (234, 131),
    "tkill": (200, 130),
}
_SERVER = 1
_DISGUISED = 1 << 32 | 1
"""The kernel reads a process id as 32 bits, so this is the server too."""
_LIMITS = {"cpu": 0, "file size": 1, "data": 2, "stack": 3, "processes": 6, "open files": 7, "address space": 9}
_SCHED_BATCH, _SCHED_IDLE = 3, 5
_SIGCHLD = 17


def system_call(name: str, *arguments: int | bytes | None) -> bool:
    values = [ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_long(value or 0) for value in arguments]
    return bool(_libc.syscall(ctypes.c_long(_CALLS[name][_COLUMN]), *values) != -1)


def reached_by_calls() -> list[str]:
    nothing = struct.pack("<QQ", 0, 0)
    signal = struct.pack("<iii116x", _SIGCHLD, 0, -1)
    buffer = ctypes.create_string_buffer(16)
    vector = struct.pack("<QQ", ctypes.addressof(buffer), 8)
    attributes = struct.pack("<IIQiIQQQ", 48, _SCHED_IDLE, 0, 0, 0, 0, 0, 0)
    reached = []
    for pid in (_SERVER, _DISGUISED):
        tried: dict[str, tuple[Any, ...]] = {
            f"limit: {name}": ("prlimit64", pid, number, nothing, None) for name, number in _LIMITS.items()
        }
        tried |= {
            "sched_setaffinity": ("sched_setaffinity", pid, 8, struct.pack("<Q", 1)),
            "sched_setattr": ("sched_setattr", pid, attributes, 0),
            "sched_setparam": ("sched_setparam", pid, struct.pack("<i", 0)),
            "batch": ("sched_setscheduler", pid, _SCHED_BATCH, struct.pack("<i", 0)),
            "idle": ("sched_setscheduler", pid, _SCHED_IDLE, struct.pack("<i", 0)),
            "priority of the process": ("setpriority", 0, pid, 19),
            "priority of the group": ("setpriority", 1, pid, 19),
            "I/O priority of the process": ("ioprio_set", 1, pid, 3 << 13),
            "I/O priority of the group": ("ioprio_set", 2, pid, 3 << 13),
            "get_robust_list": ("get_robust_list", pid, bytes(8), bytes(8)),
            "kcmp": ("kcmp", pid, os.getpid(), 0, 0, 0),
            "migrate_pages": ("migrate_pages", pid, 1, bytes(8), bytes(8)),
            "move_pages": ("move_pages", pid, 0, None, None, None, 0),
            "perf_event_open": ("perf_event_open", bytes(128), pid, -1, -1, 0),
            "pidfd_open": ("pidfd_open", pid, 0),
            "process_vm_readv": ("process_vm_readv", pid, vector, 1, vector, 1, 0),
            "process_vm_writev": ("process_vm_writev", pid, vector, 1, vector, 1, 0),
            "attach": ("ptrace", 16, pid, 0, 0),
            "seize": ("ptrace", 0x4206, pid, 0, 0),
            "kill": ("kill", pid, 9),
            "tkill": ("tkill", pid, 9),
            "tgkill": ("tgkill", pid, pid, 9),
            "rt_sigqueueinfo": ("rt_sigqueueinfo", pid, _SIGCHLD, signal),
            "rt_tgsigqueueinfo": ("rt_tgsigqueueinfo", pid, pid, _SIGCHLD, signal),
        }
        reached += [name for name, call in tried.items() if system_call(*call)]
    for who in (0, os.getuid(), _DISGUISED - 1 | os.getuid()):
        if system_call("setpriority", 2, who, 19):
            reached.append("priority of the user")
        if system_call("ioprio_set", 3, who, 3 << 13):
            reached.append("I/O priority of the user")
    return reached


def reached_by_files() -> list[str]:
    """Try to write to every file that /proc has about the server, and to open what is private to it."""
    private = ("auxv", "environ", "io", "maps", "mem", "pagemap", "smaps", "stack", "syscall")
    reached: list[Path] = []
    for folder in (Path("/proc/1"), Path("/proc/1/task/1")):
        reached += [path for path in folder.iterdir() if succeeds(write, path)]
        reached += [folder / name for name in private if succeeds(read, folder / name)]
        reached += [folder / name for name in ("fd", "fdinfo", "cwd", "root") if succeeds(os.listdir, folder / name)]
        reached += [folder / "exe"] * succeeds(os.readlink, folder / "exe")
    return [str(path) for path in reached]


def succeeds(function: Callable[[Path], object], path: Path) -> bool:
    try:
        return bool(function(path))
    except OSError:
        return False


def write(path: Path) -> int:
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        return os.write(fd, b"19")
    finally:
        os.close(fd)


def read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1)


def main() -> None:
    sys.stdout.write("".join(f"{way}\n" for way in reached_by_calls() + reached_by_files()))
    sys.stdout.write("tried\n")


if __name__ == "__main__":
    main()
