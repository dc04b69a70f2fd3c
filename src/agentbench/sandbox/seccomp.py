"""The system call filter of every sandbox: a deny list, assembled for bubblewrap's `--seccomp`.

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


# System call numbers from 424 on are the same on all architectures.
_NEW_CALLS = (
    425,  # io_uring_setup
    426,  # io_uring_enter
    427,  # io_uring_register
    428,  # open_tree
    429,  # move_mount
    430,  # fsopen
    431,  # fsconfig
    432,  # fsmount
    433,  # fspick
    442,  # mount_setattr
    443,  # quotactl_fd
    467,  # open_tree_attr
)

_X86_64 = Machine(
    arch=0xC000_003E,
    clone=56,
    clone3=435,
    ioctl=16,
    socket=41,
    has_x32=True,
    denied=(
        103,  # syslog
        153,  # vhangup
        155,  # pivot_root
        161,  # chroot
        163,  # acct
        165,  # mount
        166,  # umount2
        167,  # swapon
        168,  # swapoff
        169,  # reboot
        172,  # iopl
        173,  # ioperm
        175,  # init_module
        176,  # delete_module
        179,  # quotactl
        180,  # nfsservctl
        212,  # lookup_dcookie
        246,  # kexec_load
        248,  # add_key
        249,  # request_key
        250,  # keyctl
        256,  # migrate_pages
        272,  # unshare
        279,  # move_pages
        298,  # perf_event_open
        303,  # name_to_handle_at
        304,  # open_by_handle_at
        308,  # setns
        312,  # kcmp
        313,  # finit_module
        320,  # kexec_file_load
        321,  # bpf
        323,  # userfaultfd
        *_NEW_CALLS,
    ),
)

_AARCH64 = Machine(
    arch=0xC000_00B7,
    clone=220,
    clone3=435,
    ioctl=29,
    socket=198,
    denied=(
        18,  # lookup_dcookie
        39,  # umount2
        40,  # mount
        41,  # pivot_root
        42,  # nfsservctl
        51,  # chroot
        58,  # vhangup
        60,  # quotactl
        89,  # acct
        97,  # unshare
        104,  # kexec_load
        105,  # init_module
        106,  # delete_module
        116,  # syslog
        142,  # reboot
        217,  # add_key
        218,  # request_key
        219,  # keyctl
        224,  # swapon
        225,  # swapoff
        238,  # migrate_pages
        239,  # move_pages
        241,  # perf_event_open
        264,  # name_to_handle_at
        265,  # open_by_handle_at
        268,  # setns
        272,  # kcmp
        273,  # finit_module
        280,  # bpf
        282,  # userfaultfd
        294,  # kexec_file_load
        *_NEW_CALLS,
    ),
)

MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}


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
