"""The system call filter, run by a small interpreter of classic BPF for both architectures."""

from __future__ import annotations

import errno
import struct

import pytest

from agentbench.sandbox.seccomp import MACHINES, Machine, assemble

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
NAMES = sorted(MACHINES)


def decide(program: bytes, arch: int, number: int, *arguments: int) -> int:
    """Run the filter. Return ALLOW, NOTIFY or the error number."""
    data = struct.pack("<iIQ6Q", number, arch, 0, *(list(arguments) + [0] * 6)[:6])
    code = list(struct.iter_unpack("<HBBI", program))
    accumulator, position = 0, 0
    while True:
        operation, if_true, if_false, value = code[position]
        position += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return int(value) if value in {ALLOW, NOTIFY} else int(value) & 0xFFFF
        else:
            matches = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[
                operation
            ]
            position += if_true if matches else if_false


@pytest.fixture(params=NAMES)
def machine(request: pytest.FixtureRequest) -> Machine:
    return MACHINES[request.param]


def test_exactly_the_denied_calls_are_refused(machine: Machine) -> None:
    program = assemble(machine)
    special = {machine.clone, machine.clone3, machine.ioctl, machine.socket}
    for number in range(500):
        expected = errno.EPERM if number in machine.denied else ALLOW
        if number not in special:
            assert decide(program, machine.arch, number) == expected, number


def test_calls_of_other_architectures_are_refused(machine: Machine) -> None:
    program = assemble(machine)
    assert decide(program, 0x4000_0003, 1) == errno.ENOSYS
    if machine.has_x32:
        assert decide(program, machine.arch, 0x4000_0001) == errno.ENOSYS


def test_stops_at_exit_are_refused(machine: Machine) -> None:
    """Processes that trace each other with this option cannot be killed."""
    program, exit_stop, others = assemble(machine), 0x40, 0x10003F
    for request in (21, 0x4200, 0x4206):  # OLDSETOPTIONS, SETOPTIONS, SEIZE
        assert decide(program, machine.arch, machine.ptrace, request, 7, 0, exit_stop | 1) == errno.EPERM
        assert decide(program, machine.arch, machine.ptrace, request, 7, 0, others) == ALLOW
        assert decide(program, machine.arch, machine.ptrace, request, 1, 0, others) == errno.EPERM
    assert decide(program, machine.arch, machine.ptrace, 4, 7, 0, exit_stop) == ALLOW  # POKETEXT
    assert decide(program, machine.arch, machine.ptrace, 16, 1) == errno.EPERM


@pytest.mark.parametrize("flag", [0x0002_0000, 0x0200_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0400_0000])
def test_new_namespaces_are_refused(machine: Machine, flag: int) -> None:
    program = assemble(machine)
    assert decide(program, machine.arch, machine.clone, flag | 17) == errno.EPERM
    assert decide(program, machine.arch, machine.clone3) == errno.ENOSYS


def test_threads_and_children_are_allowed(machine: Machine) -> None:
    program = assemble(machine)
    assert decide(program, machine.arch, machine.clone, 17) == ALLOW
    assert decide(program, machine.arch, machine.clone, 0x3D0F00) == ALLOW  # flags of pthread_create


def test_socket_families_outside_of_network_namespaces_are_refused(machine: Machine) -> None:
    program = assemble(machine)
    allowed = {family for family in range(50) if decide(program, machine.arch, machine.socket, family) == ALLOW}
    assert allowed == {1, 2, 10, 16}
    assert decide(program, machine.arch, machine.socket, 40) == errno.EAFNOSUPPORT


def test_huge_pages_are_refused_as_if_there_were_none(machine: Machine) -> None:
    """They are not charged to the memory limit."""
    program = assemble(machine)
    for number, arguments, flag in (
        (machine.mmap, (0, 4096, 3, 0x22), 0x40000),
        (machine.memfd_create, (0, 1), 4),
        (machine.shmget, (0, 4096, 0o1600), 0o4000),
    ):
        *others, flags = arguments
        assert decide(program, machine.arch, number, *others, flags) == ALLOW
        assert decide(program, machine.arch, number, *others, flags | flag) == errno.ENOMEM


def test_terminal_injection_is_refused(machine: Machine) -> None:
    program = assemble(machine)
    assert decide(program, machine.arch, machine.ioctl, 0, 0x5412) == errno.EPERM
    assert decide(program, machine.arch, machine.ioctl, 0, 0x541C) == errno.EPERM
    assert decide(program, machine.arch, machine.ioctl, 0, 0x5413) == ALLOW
    # The kernel reads only the low half, so the high half must not hide the request.
    assert decide(program, machine.arch, machine.ioctl, 0, 0x1_0000_5412) == errno.EPERM


def test_listener_is_notified_of_programs_and_of_all_that_the_plain_filter_denies(machine: Machine) -> None:
    plain, notifying = assemble(machine), assemble(machine, notify=True)
    programs = {machine.execve, machine.execveat}
    arguments = [(), (0x1000_0000,), (40,), (0, 0x5412)]
    for number in range(500):
        for values in arguments:
            expected = decide(plain, machine.arch, number, *values)
            if number in programs or expected in {errno.EPERM, errno.EAFNOSUPPORT}:
                expected = NOTIFY
            assert decide(notifying, machine.arch, number, *values) == expected, (number, values)
    assert decide(notifying, 0x4000_0003, 11) == errno.ENOSYS
    if machine.has_x32:
        assert decide(notifying, machine.arch, 0x4000_0000 + 520) == errno.ENOSYS


def test_undumpable_is_pretended_for_a_listener_only(machine: Machine) -> None:
    notifying = assemble(machine, notify=True)
    assert decide(notifying, machine.arch, machine.prctl, 4, 0) == 0
    assert decide(notifying, machine.arch, machine.prctl, 4, 1) == ALLOW
    assert decide(notifying, machine.arch, machine.prctl, 38, 0) == ALLOW
    assert decide(assemble(machine), machine.arch, machine.prctl, 4, 0) == ALLOW


def test_every_denied_call_has_a_class(machine: Machine) -> None:
    by_argument = {machine.clone, machine.ioctl, machine.socket, *(rule.number for rule in machine.targets)}
    assert set(machine.denied) | by_argument == set(machine.classes)


def test_calls_that_name_the_command_server_are_refused(machine: Machine) -> None:
    plain, notifying = assemble(machine), assemble(machine, notify=True)
    for rule in machine.targets:
        for index, value in rule.values:
            before = [0] * index
            for harmful in (value, 1 << 32 | value):  # the kernel reads only the low half of an id
                assert decide(plain, machine.arch, rule.number, *before, harmful) == errno.EPERM, rule
                counted = errno.EPERM if rule.is_signal else NOTIFY
                assert decide(notifying, machine.arch, rule.number, *before, harmful) == counted, rule
            for harmless in (0, 4321, 0xFFFF_FFFF, 1 << 32):
                assert decide(plain, machine.arch, rule.number, *before, harmless) == ALLOW, rule
