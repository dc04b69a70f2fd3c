"""The system call filter of every sandbox: a deny list, assembled as classic BPF.

Bubblewrap applies it (`--seccomp`); in a container the command server adds it to the engine's own. In the agent phase
the command server applies a variant that notifies it of denied calls and of every program that is about to start.

It denies what namespaces and missing capabilities already forbid, where the kernel's own check has had bugs (mounting,
modules, keys, BPF, userfaultfd, io_uring, new namespaces), and what they do not cover: socket families outside of
network namespaces (vsock reaches the hypervisor) and pushing characters into a terminal. `ptrace` stays allowed:
debuggers and leak checkers need it, and it reaches only processes of the same sandbox.

Commands run as the same user as the command server, so the kernel would let them change its limits, its scheduling and
its priority. The server has one thread, and its process, thread and group ids are all 1: every call that names 1 as its
target is denied, and so is every call that names all processes of a user.

A traced process that stops when it exits (`PTRACE_O_TRACEEXIT`) waits for its tracer, and the kernel drops further signals
to it. Two that trace each other could not be killed, and would keep their memory until the host restarts. The option,
which only `strace` asks for, is denied.

Huge pages are not charged to the memory limit of a sandbox, and a program that binds its memory to one NUMA node can make
the kernel kill processes although the sandbox is far below its limit, as if the host were out of memory. Both are denied.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

from agentbench.core.dataclass import dataclass

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF_0000
_NOTIFY = 0x7FC0_0000
_ERRNO = 0x0005_0000
_NR, _ARCH, _ARG0, _ARG1, _ARG3 = 0, 4, 16, 24, 40  # offsets in struct seccomp_data; arguments: low word, little endian
_ARG_BYTES = 8
_X32_BIT = 0x4000_0000

_NEW_NAMESPACES = 0x7E02_0080  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_ALLOWED_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink
_PR_SET_DUMPABLE = 4
_PTRACE_OLDSETOPTIONS, _PTRACE_SETOPTIONS, _PTRACE_SEIZE = 21, 0x4200, 0x4206
_PTRACE_O_TRACEEXIT = 0x40
_MAP_HUGETLB, _MFD_HUGETLB, _SHM_HUGETLB = 0x40000, 0x4, 0o4000


@dataclass(frozen=True, slots=True)
class TargetRule:
    """Denies a call by its arguments."""

    number: int
    values: tuple[tuple[int, int], ...]
    """(index of an argument, value): each pair denies the call. The kernel reads ids as 32 bits, and so does the filter."""
    is_signal: bool


@dataclass(frozen=True, slots=True)
class Machine:
    arch: int
    clone: int
    clone3: int
    execve: int
    execveat: int
    ioctl: int
    memfd_create: int
    mmap: int
    prctl: int
    ptrace: int
    seccomp: int
    shmget: int
    socket: int
    denied: tuple[int, ...]
    targets: tuple[TargetRule, ...]
    """Denies calls that reach the command server."""
    classes: Mapping[int, str]
    """Number -> class of every call that is denied, always or for some arguments."""
    has_x32: bool = False


_DENIED = {
    "bpf": "bpf 321 280",
    "file_handles": "name_to_handle_at 303 264, open_by_handle_at 304 265",
    "io_uring": "io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427",
    "kernel_modules": "delete_module 176 106, finit_module 313 273, init_module 175 105, kexec_file_load 320 294, "
    "kexec_load 246 104",
    "keys": "add_key 248 217, keyctl 250 219, request_key 249 218",
    "memory": "mbind 237 235, migrate_pages 256 238, move_pages 279 239, set_mempolicy 238 237, "
    "set_mempolicy_home_node 450 450, userfaultfd 323 282",
    "mount": "chroot 161 51, fsconfig 431 431, fsmount 432 432, fsopen 430 430, fspick 433 433, mount 165 40, "
    "mount_setattr 442 442, move_mount 429 429, open_tree 428 428, open_tree_attr 467 467, pivot_root 155 41, "
    "umount2 166 39",
    "namespaces": "setns 308 268, unshare 272 97",
    "system": "acct 163 89, ioperm 173 -, iopl 172 -, nfsservctl 180 42, quotactl 179 60, quotactl_fd 443 443, "
    "reboot 169 142, swapoff 168 225, swapon 167 224, syslog 103 116, vhangup 153 58",
    "tracing": "kcmp 312 272, lookup_dcookie 212 18, perf_event_open 298 241",
}
"""Class -> names and numbers of denied calls, on x86_64 and on aarch64."""

_SERVER_SIGNALS = (
    "kill 62 129 0=1, tkill 200 130 0=1, tgkill 234 131 0=1 1=1, rt_sigqueueinfo 129 138 0=1, "
    "rt_tgsigqueueinfo 297 240 0=1 1=1"
)
_SERVER_STATE = (
    "prlimit64 302 261 0=1, sched_setparam 142 118 0=1, sched_setscheduler 144 119 0=1, "
    "sched_setaffinity 203 122 0=1, sched_setattr 314 274 0=1, setpriority 141 140 0=2 1=1, ioprio_set 251 30 0=3 1=1, "
    "ptrace 101 117 1=1, process_vm_readv 310 270 0=1, process_vm_writev 311 271 0=1, get_robust_list 274 100 0=1, "
    "pidfd_open 434 434 0=1"
)
"""Calls that can name a process: numbers on x86_64 and aarch64, and the values of arguments that are denied.

A first argument of 2 for `setpriority` and of 3 for `ioprio_set` selects all processes of a user. Calls on a descriptor
of a process are not listed: `pidfd_open` is, and a folder of /proc only serves to send signals, which the server blocks.
"""


def _targets(column: int) -> tuple[TargetRule, ...]:
    rules = []
    for table in (_SERVER_SIGNALS, _SERVER_STATE):
        for row in table.split(", "):
            fields = row.split()
            pairs = [pair.partition("=") for pair in fields[3:]]
            values = tuple((int(index), int(value)) for index, _, value in pairs)
            rules.append(TargetRule(int(fields[column]), values, is_signal=table is _SERVER_SIGNALS))
    return tuple(rules)


def _denied(column: int) -> dict[int, str]:
    """Return number -> class of the denied calls in a column of the table."""
    rows = [(row.split()[column], name) for name, table in _DENIED.items() for row in table.split(", ")]
    return {int(number): name for number, name in sorted(rows) if number != "-"}


def _machine(column: int, **numbers: int) -> Machine:
    denied = _denied(column)
    targets = _targets(column)
    by_argument = {numbers["clone"]: "namespaces", numbers["ioctl"]: "terminal", numbers["socket"]: "socket_family"}
    by_argument |= {rule.number: "command_server" for rule in targets}
    return Machine(
        denied=tuple(sorted(denied)),
        targets=targets,
        classes={**denied, **by_argument},
        clone3=435,
        has_x32=column == 1,
        **numbers,
    )


MACHINES = {
    "x86_64": _machine(
        1,
        arch=0xC000_003E,
        clone=56,
        execve=59,
        execveat=322,
        ioctl=16,
        memfd_create=319,
        mmap=9,
        prctl=157,
        ptrace=101,
        seccomp=317,
        shmget=29,
        socket=41,
    ),
    "aarch64": _machine(
        2,
        arch=0xC000_00B7,
        clone=220,
        execve=221,
        execveat=281,
        ioctl=29,
        memfd_create=279,
        mmap=222,
        prctl=167,
        ptrace=117,
        seccomp=277,
        shmget=194,
        socket=198,
    ),
}


class _Program:
    """Instructions of classic BPF. Jumps are relative and come right before the instructions that they skip."""

    def __init__(self, *, notify: bool) -> None:
        self._code = bytearray()
        self._notify = notify

    def add(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._code += struct.pack("<HBBI", code, if_true, if_false, value)

    def load(self, offset: int) -> None:
        self.add(_LD, offset)

    def return_value(self, value: int) -> None:
        self.add(_RET, value)

    def deny(self, number: int) -> None:
        """Refuse the call. If the command server listens, it counts the call and refuses it."""
        self.return_value(_NOTIFY if self._notify else _ERRNO | number)

    def answer(self, number: int) -> None:
        """Return an error, or 0 for success, without executing the call."""
        self.return_value(_ERRNO | number)

    def bytes(self) -> bytes:
        return bytes(self._code)


def supported() -> bool:
    return platform.machine() in MACHINES


def assemble(machine: Machine | None = None, *, notify: bool = False) -> bytes:
    """Return the filter as `struct sock_filter[]`, empty (no filter) on an architecture without a table.

    `notify`: return the variant for a command server that listens. Without a listener its calls fail with ENOSYS.
    """
    machine = machine or MACHINES.get(platform.machine())
    if machine is None:
        return b""
    program = _Program(notify=notify)
    program.load(_ARCH)
    program.add(_JEQ, machine.arch, if_true=1)
    program.answer(errno.ENOSYS)  # a 32-bit program, which uses other numbers
    program.load(_NR)
    if machine.has_x32:
        program.add(_JGE, _X32_BIT, if_false=1)
        program.answer(errno.ENOSYS)
    if notify:
        _notify_of_programs(program, machine)
    for number in machine.denied:
        program.add(_JEQ, number, if_false=1)
        program.deny(errno.EPERM)
    # clone3 passes its flags in memory, which a filter cannot read. Callers fall back to clone.
    program.add(_JEQ, machine.clone3, if_false=1)
    program.answer(errno.ENOSYS)
    _deny_exit_stops(program, machine)
    for rule in machine.targets:
        _deny_targets(program, rule)
    _deny_new_namespaces(program, machine)
    _deny_terminal_input(program, machine)
    _deny_huge_pages(program, machine)
    _deny_socket_families(program, machine)
    program.return_value(_ALLOW)
    return program.bytes()


def _notify_of_programs(program: _Program, machine: Machine) -> None:
    for number in (machine.execve, machine.execveat):
        program.add(_JEQ, number, if_false=1)
        program.return_value(_NOTIFY)
    # The memory of a process that made itself undumpable could not be read. Let it believe that it did.
    program.add(_JEQ, machine.prctl, if_false=6)
    program.load(_ARG0)
    program.add(_JEQ, _PR_SET_DUMPABLE, if_false=3)
    program.load(_ARG1)
    program.add(_JEQ, 0, if_false=1)
    program.answer(0)
    program.return_value(_ALLOW)


def _deny_exit_stops(program: _Program, machine: Machine) -> None:
    program.add(_JEQ, machine.ptrace, if_false=8)
    program.load(_ARG0)
    program.add(_JEQ, _PTRACE_SEIZE, if_true=2)
    program.add(_JEQ, _PTRACE_SETOPTIONS, if_true=1)
    program.add(_JEQ, _PTRACE_OLDSETOPTIONS, if_false=3)
    program.load(_ARG3)
    program.add(_JSET, _PTRACE_O_TRACEEXIT, if_false=1)
    program.answer(errno.EPERM)  # honest use: `strace`
    program.load(_NR)


def _deny_targets(program: _Program, rule: TargetRule) -> None:
    program.add(_JEQ, rule.number, if_false=3 * len(rule.values) + 1)
    for index, value in rule.values:
        program.load(_ARG0 + _ARG_BYTES * index)
        program.add(_JEQ, value, if_false=1)
        if rule.is_signal:
            # Honest programs do it by accident (`pkill python`), so it shows nothing and is not counted.
            program.answer(errno.EPERM)
        else:
            program.deny(errno.EPERM)
    program.return_value(_ALLOW)


def _deny_new_namespaces(program: _Program, machine: Machine) -> None:
    program.add(_JEQ, machine.clone, if_false=4)
    program.load(_ARG0)
    program.add(_JSET, _NEW_NAMESPACES, if_false=1)
    program.deny(errno.EPERM)
    program.return_value(_ALLOW)


def _deny_terminal_input(program: _Program, machine: Machine) -> None:
    program.add(_JEQ, machine.ioctl, if_false=5)
    program.load(_ARG1)
    program.add(_JEQ, _TIOCSTI, if_true=1)
    program.add(_JEQ, _TIOCLINUX, if_false=1)
    program.deny(errno.EPERM)
    program.return_value(_ALLOW)


def _deny_huge_pages(program: _Program, machine: Machine) -> None:
    """Fail as on a host that has no huge pages, which honest programs expect."""
    flags = (
        (machine.mmap, 3, _MAP_HUGETLB),
        (machine.memfd_create, 1, _MFD_HUGETLB),
        (machine.shmget, 2, _SHM_HUGETLB),
    )
    for number, argument, flag in flags:
        program.add(_JEQ, number, if_false=4)
        program.load(_ARG0 + _ARG_BYTES * argument)
        program.add(_JSET, flag, if_false=1)
        program.answer(errno.ENOMEM)
        program.return_value(_ALLOW)


def _deny_socket_families(program: _Program, machine: Machine) -> None:
    program.add(_JEQ, machine.socket, if_false=3 + len(_ALLOWED_FAMILIES))
    program.load(_ARG0)
    for index, family in enumerate(_ALLOWED_FAMILIES):
        program.add(_JEQ, family, if_true=len(_ALLOWED_FAMILIES) - index)
    program.deny(errno.EAFNOSUPPORT)
    program.return_value(_ALLOW)
