"""The system call filter of every sandbox: a deny list, assembled as classic BPF.

Bubblewrap applies it (`--seccomp`); in a container the command server adds it to the engine's own.

It denies what namespaces and missing capabilities already forbid, where the kernel's own check has had bugs (mounting,
modules, keys, BPF, userfaultfd, io_uring, new namespaces), and what they do not cover: socket families outside of
network namespaces (vsock reaches the hypervisor) and pushing characters into a terminal. `ptrace` stays allowed:
debuggers and leak checkers need it, and it reaches only processes of the same sandbox, never the command server, which
is undumpable.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW = 0x7FFF_0000
_ERRNO = 0x0005_0000
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24  # offsets in struct seccomp_data; arguments: low word, little endian
_X32_BIT = 0x4000_0000

_NEW_NAMESPACES = 0x7E02_0080  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_ALLOWED_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink


@dataclass(frozen=True, slots=True)
class Machine:
    arch: int
    clone: int
    clone3: int
    ioctl: int
    socket: int
    denied: tuple[int, ...]
    has_x32: bool = False


_DENIED = (
    "acct 163 89, add_key 248 217, bpf 321 280, chroot 161 51, delete_module 176 106, finit_module 313 273, "
    "init_module 175 105, kcmp 312 272, kexec_file_load 320 294, kexec_load 246 104, keyctl 250 219, "
    "lookup_dcookie 212 18, migrate_pages 256 238, mount 165 40, move_pages 279 239, name_to_handle_at 303 264, "
    "nfsservctl 180 42, open_by_handle_at 304 265, perf_event_open 298 241, pivot_root 155 41, quotactl 179 60, "
    "reboot 169 142, request_key 249 218, setns 308 268, swapoff 168 225, swapon 167 224, syslog 103 116, "
    "umount2 166 39, unshare 272 97, userfaultfd 323 282, vhangup 153 58"
)
"""Names and numbers of denied calls, on x86_64 and on aarch64."""
_X86_64_ONLY = (173, 172)  # ioperm, iopl
_NEW_CALLS = (
    "io_uring_setup 425, io_uring_enter 426, io_uring_register 427, open_tree 428, move_mount 429, fsopen 430, "
    "fsconfig 431, fsmount 432, fspick 433, mount_setattr 442, quotactl_fd 443, open_tree_attr 467"
)
"""Denied calls with a number from 424 on, which is the same on all architectures."""


def _column(table: str, column: int) -> list[int]:
    return [int(row.split()[column]) for row in table.split(", ")]


MACHINES = {
    "x86_64": Machine(
        arch=0xC000_003E,
        clone=56,
        clone3=435,
        ioctl=16,
        socket=41,
        denied=(*sorted([*_column(_DENIED, 1), *_X86_64_ONLY]), *_column(_NEW_CALLS, 1)),
        has_x32=True,
    ),
    "aarch64": Machine(
        arch=0xC000_00B7,
        clone=220,
        clone3=435,
        ioctl=29,
        socket=198,
        denied=(*sorted(_column(_DENIED, 2)), *_column(_NEW_CALLS, 1)),
    ),
}


class _Program:
    """Instructions of classic BPF. Jumps are relative and come right before the instructions that they skip."""

    def __init__(self) -> None:
        self._code = bytearray()

    def add(self, code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        self._code += struct.pack("<HBBI", code, if_true, if_false, value)

    def load(self, offset: int) -> None:
        self.add(_LD, offset)

    def return_value(self, value: int) -> None:
        self.add(_RET, value)

    def deny(self, number: int) -> None:
        self.add(_RET, _ERRNO | number)

    def bytes(self) -> bytes:
        return bytes(self._code)


def supported() -> bool:
    return platform.machine() in MACHINES


def assemble(machine: Machine | None = None) -> bytes:
    """Return the filter as `struct sock_filter[]`, empty (no filter) on an architecture without a table."""
    machine = machine or MACHINES.get(platform.machine())
    if machine is None:
        return b""
    program = _Program()
    program.load(_ARCH)
    program.add(_JEQ, machine.arch, if_true=1)
    program.deny(errno.ENOSYS)  # a 32-bit program, which uses other numbers
    program.load(_NR)
    if machine.has_x32:
        program.add(_JGE, _X32_BIT, if_false=1)
        program.deny(errno.ENOSYS)
    for number in machine.denied:
        program.add(_JEQ, number, if_false=1)
        program.deny(errno.EPERM)
    # clone3 passes its flags in memory, which a filter cannot read. Callers fall back to clone.
    program.add(_JEQ, machine.clone3, if_false=1)
    program.deny(errno.ENOSYS)
    _deny_new_namespaces(program, machine)
    _deny_terminal_input(program, machine)
    _deny_socket_families(program, machine)
    program.return_value(_ALLOW)
    return program.bytes()


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


def _deny_socket_families(program: _Program, machine: Machine) -> None:
    program.add(_JEQ, machine.socket, if_false=3 + len(_ALLOWED_FAMILIES))
    program.load(_ARG0)
    for index, family in enumerate(_ALLOWED_FAMILIES):
        program.add(_JEQ, family, if_true=len(_ALLOWED_FAMILIES) - index)
    program.deny(errno.EAFNOSUPPORT)
    program.return_value(_ALLOW)
