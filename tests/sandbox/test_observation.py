"""Programs that a command starts are observed, whatever they do, and denied system calls are counted."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agentbench.core.canonical import canonical
from agentbench.core.command import Command, Completed, ProcessCounts
from agentbench.sandbox.observation import ObservedPrograms
from agentbench.sandbox.protocol import Backend, Phase, Prepared, ProcessEnd, ProcessObserver, ProcessStart, Sandbox
from agentbench.sandbox.server.capture import pack
from agentbench.tree.entry import FileWrite
from tests.sandbox.conftest import SPEC

BACKENDS = ["bwrap", "docker"]
KERNEL_TELLS_STATUS = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 15)

pytestmark = [pytest.mark.req("M-02b"), pytest.mark.component]


@dataclass
class Observed:
    """The result of an observed command."""

    completed: Completed
    starts: list[ProcessStart] = field(default_factory=list)
    ends: dict[int, ProcessEnd] = field(default_factory=dict)

    @property
    def counts(self) -> ProcessCounts:
        assert self.completed.processes is not None
        return self.completed.processes

    def of(self, program: str) -> list[ProcessStart]:
        """The starts of programs with this file name."""
        return [start for start in self.starts if start.program.rpartition("/")[2] == program]


Observe = Callable[..., Observed]


def observe_in(sandbox: Sandbox, command: Command) -> Observed:
    events: list[ProcessStart | ProcessEnd] = []
    observed = Observed(sandbox.run(command, observe=events.append))
    for event in events:
        if isinstance(event, ProcessStart):
            observed.starts.append(event)
        else:
            observed.ends[event.number] = event
    # Every end belongs to a start, and starts come in order.
    assert [start.number for start in observed.starts] == sorted(start.number for start in observed.starts)
    assert observed.ends.keys() <= {start.number for start in observed.starts}
    return observed


@pytest.fixture
def observe(sandbox: Sandbox) -> Observe:
    """Run one shell line in `sandbox` and observe it."""

    def run(line: str, **options: object) -> Observed:
        return observe_in(sandbox, Command(line=line, **{"timeout_sec": 100.0, **options}))  # type: ignore[arg-type]

    return run


@pytest.fixture
def observe_python(observe: Observe) -> Observe:
    """Run Python code in `sandbox` and observe it."""
    return lambda code, **options: observe("python3 -", stdin=textwrap.dedent(code).encode(), **options)


class TestRecord:
    def test_programs_are_seen_with_arguments_folder_and_parent(self, sandbox: Sandbox, observe: Observe) -> None:
        assert sandbox.observation_problem is None
        seen = observe("cd /tmp; /bin/true one 'two words'; exec sleep 0")
        shell, true, sleep = seen.starts
        assert (shell.number, shell.argv[:2], shell.cwd, shell.parent) == (1, ("/bin/sh", "-c"), "/workspace", 1)
        assert (true.program, true.argv, true.cwd) == ("/bin/true", ("/bin/true", "one", "two words"), "/tmp")
        assert true.parent == shell.pid
        assert (sleep.argv, sleep.pid) == (("sleep", "0"), shell.pid)
        assert shell.elapsed_us <= true.elapsed_us <= sleep.elapsed_us
        assert seen.counts == ProcessCounts(started=3, dropped=0, refused=0)

    def test_ends_have_exit_code_or_signal(self, observe: Observe) -> None:
        seen = observe("sh -c 'exit 3'; sh -c 'kill -9 $$'; exit 4")
        assert seen.completed.exit_code == 4
        ends = {seen.starts[number - 1].argv[-1]: end for number, end in seen.ends.items()}
        # The command's own end is known on every kernel.
        assert (seen.ends[1].exit_code, seen.ends[1].signal) == (4, None)
        if KERNEL_TELLS_STATUS:
            assert (ends["exit 3"].exit_code, ends["exit 3"].signal) == (3, None)
            assert (ends["kill -9 $$"].exit_code, ends["kill -9 $$"].signal) == (None, 9)

    def test_commands_without_an_observer_are_not_observed(self, sandbox: Sandbox) -> None:
        assert sandbox.run(Command(line="/bin/true")).processes is None

    def test_program_started_without_a_shell_is_seen(self, sandbox: Sandbox) -> None:
        seen = observe_in(sandbox, Command(argv=("ls", "-d", "."), cwd="/tmp"))
        assert [(start.argv, start.cwd) for start in seen.starts] == [(("ls", "-d", "."), "/tmp")]
        assert seen.starts[0].program.endswith("/ls")

    def test_command_that_cannot_start_has_started_nothing(self, sandbox: Sandbox) -> None:
        seen = observe_in(sandbox, Command(argv=("no-such-program",)))
        assert seen.completed.exit_code == 127
        assert seen.counts == ProcessCounts(0, 0, 0)

    def test_command_without_an_interpreter_fails_like_in_a_shell(self, sandbox: Sandbox) -> None:
        sandbox.write_files([FileWrite(b"script", b"#!/no/such/interpreter\n", executable=True)])
        seen = observe_in(sandbox, Command(argv=("./script",)))
        assert seen.completed.exit_code == 127
        assert b"cannot start in /workspace" in seen.completed.stderr.kept

    def test_live_command_is_observed_while_it_runs(self, sandbox: Sandbox) -> None:
        events: list[ProcessStart | ProcessEnd] = []
        output: list[bytes] = []
        running = sandbox.start(Command(line="/bin/true; cat"), on_stdout=output.append, observe=events.append)
        running.write(b"line\n")
        running.close_stdin()
        completed = running.wait()
        assert b"".join(output) == b"line\n"
        starts = [event.argv for event in events if isinstance(event, ProcessStart)]
        assert starts[1:] == [("/bin/true",), ("cat",)]
        assert completed.processes == ProcessCounts(3, 0, 0)

    def test_arguments_of_any_bytes_become_valid_text(self, observe_python: Observe) -> None:
        seen = observe_python(r"""
            import os
            os.execv(b'/bin/true', [b'true', b'\xff\xfe', b'\xed\xa0\x80', b'', b'a\nb\x1b[31m', '\u00e4'.encode()])
        """)
        argv = seen.of("true")[0].argv
        assert argv == ("true", "\\xff\\xfe", "\\xed\\xa0\\x80", "", "a\nb\x1b[31m", "ä")
        assert "".join(argv).encode()

    def test_long_arguments_are_truncated(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import subprocess
            subprocess.run(['/bin/true', 'x' * 100_000])
            subprocess.run(['/bin/true', *map(str, range(5000))])
            subprocess.run(['/bin/true', 'y' * 30_000])
        """)
        long, many, whole = seen.of("true")
        assert (long.truncated, many.truncated, whole.truncated) == (True, True, False)
        assert 10_000 < len(long.argv[1]) <= 32_768
        assert many.argv[1:100] == tuple(map(str, range(99)))

    def test_search_along_path_is_one_start(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import os, subprocess
            subprocess.run(['env', 'ls', '/nowhere'], env={'PATH': '/a:/b:/usr/bin:/bin'}, stderr=subprocess.DEVNULL)
            subprocess.run(['env', 'no-such-program', 'x'], stderr=subprocess.DEVNULL)
        """)
        assert [start.argv for start in seen.of("ls")] == [("ls", "/nowhere")]
        # The attempt counts, though the program does not exist.
        assert [start.argv for start in seen.of("no-such-program")] == [("no-such-program", "x")]


class TestWaysToExecute:
    def test_scripts_and_relative_paths(self, sandbox: Sandbox, observe: Observe) -> None:
        sandbox.write_files([FileWrite(b"dir/script", b"#!/bin/sh\necho $0\n", executable=True)])
        seen = observe("./dir/script; cd dir && ./script")
        assert seen.completed.stdout.kept == b"./dir/script\n./script\n"
        assert {start.program for start in seen.of("script")} == {"/workspace/dir/script"}

    def test_execveat_deleted_and_anonymous_files(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import ctypes, os, shutil
            libc = ctypes.CDLL(None)
            nr = {'x86_64': 322, 'aarch64': 281}[os.uname().machine]
            def execveat(fd, path, name, flags):
                if os.fork():
                    return os.wait()[1]
                argv = (ctypes.c_char_p * 2)(name, None)
                env = (ctypes.c_char_p * 1)(None)
                libc.syscall(ctypes.c_long(nr), ctypes.c_int(fd), path, argv, env, ctypes.c_int(flags))
                os._exit(99)
            true = os.path.realpath('/bin/true')
            print(execveat(os.open(os.path.dirname(true), os.O_PATH), os.path.basename(true).encode(), b'in-folder', 0))
            print(execveat(os.open(true, os.O_RDONLY), b'', b'by-descriptor', 0x1000))
            shutil.copy(true, '/tmp/copy')
            fd = os.open('/tmp/copy', os.O_RDONLY)
            os.unlink('/tmp/copy')
            print(execveat(fd, b'', b'deleted', 0x1000))
            memory = os.memfd_create('anonymous')
            os.write(memory, open(true, 'rb').read())
            print(execveat(memory, b'', b'in-memory', 0x1000))
        """)
        assert seen.completed.stdout.kept == b"0\n" * 4, seen.completed.stderr.text
        programs = {start.argv[0]: start.program for start in seen.starts[-4:]}
        assert programs["in-folder"].endswith("/true")
        assert programs["by-descriptor"] == programs["in-folder"]
        assert programs["deleted"] == "/tmp/copy (deleted)"
        assert "anonymous" in programs["in-memory"]

    def test_static_programs(self, sandbox: Sandbox, observe: Observe) -> None:
        busybox = shutil.which("busybox")
        content = Path(busybox).read_bytes() if busybox else b""
        if not content or b"/ld-linux" in content[:4096]:
            pytest.skip("no statically linked busybox")
        sandbox.write_files([FileWrite(b"busybox", content, executable=True)])
        seen = observe("./busybox sh -c './busybox true; ./busybox echo done'")
        assert [start.argv[1:] for start in seen.of("busybox")][1:] == [("true",), ("echo", "done")]

    def test_threads_that_execute_at_the_same_time(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import subprocess, threading
            def work(name):
                for number in range(20):
                    subprocess.run(['/bin/true', f'{name}-{number}'], check=True)
            threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        """)
        assert seen.completed.exit_code == 0, seen.completed.stderr.text
        names = {start.argv[1] for start in seen.of("true")}
        assert names == {f"{name}-{number}" for name in range(8) for number in range(20)}

    def test_thread_that_replaces_its_process(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import os, threading, time
            threading.Thread(target=lambda: os.execv('/bin/true', ['from-thread'])).start()
            time.sleep(60)
        """)
        start = seen.starts[-1]
        assert start.argv == ("from-thread",)
        assert start.pid == seen.starts[-2].pid
        assert seen.completed.exit_code == 0

    def test_arguments_that_change_during_the_call_hide_no_start(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import ctypes, os, threading
            libc = ctypes.CDLL(None)
            text = ctypes.create_string_buffer(b'first!')
            argv = (ctypes.c_char_p * 2)(ctypes.addressof(text), None)
            def spin():
                while True:
                    text.value = b'second'
                    text.value = b'first!'
            for _ in range(100):
                if os.fork() == 0:
                    threading.Thread(target=spin, daemon=True).start()
                    libc.execv(b'/bin/true', argv)
                os.wait()
        """)
        assert seen.completed.exit_code == 0, seen.completed.stderr.text
        assert len(seen.of("true")) == 100
        assert {start.argv for start in seen.of("true")} <= {("first!",), ("second",)}

    def test_program_that_ends_while_its_children_run(self, sandbox: Sandbox, observe: Observe) -> None:
        seen = observe("(setsid sh -c 'while true; do /bin/true; done' &) ; (sleep 60 &) ; /bin/true last")
        assert seen.completed.killed >= 1
        assert ("/bin/true", "last") in [start.argv for start in seen.starts]
        assert sandbox.kill_processes() == 0
        sleep = next(start for start in seen.starts if start.argv == ("sleep", "60"))
        if KERNEL_TELLS_STATUS:
            assert seen.ends[sleep.number].signal == 9

    @pytest.mark.slow
    def test_thousands_of_starts_are_all_recorded(self, observe: Observe) -> None:
        seen = observe("i=0; while [ $i -lt 3000 ]; do /bin/true $i; i=$((i+1)); done", timeout_sec=500.0)
        assert seen.counts == ProcessCounts(started=3_001, dropped=0, refused=0)
        assert [start.argv[1] for start in seen.of("true")] == [str(number) for number in range(3_000)]
        assert len(seen.ends) == 3_001


def set_after(event: threading.Event, number: int) -> ProcessObserver:
    """Return an observer that sets the event after so many starts."""

    def observer(seen: ProcessStart | ProcessEnd) -> None:
        if seen.number > number:
            event.set()

    return observer


class TestHostilePrograms:
    def test_log_is_bounded_and_says_that_it_is_incomplete(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import subprocess
            for _ in range(400): subprocess.run(['/bin/true', 'x' * 32_000], check=True)
        """)
        assert seen.counts.dropped > 0
        # The shell, Python and 400 programs.
        assert seen.counts.started == 402
        assert len(seen.starts) == 402 - seen.counts.dropped
        assert sum(len(start.argv[-1]) for start in seen.starts) < 9 << 20

    def test_undumpable_programs_are_seen(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import ctypes, os
            print(ctypes.CDLL(None).prctl(4, 0, 0, 0, 0), flush=True)
            os.execv('/bin/true', ['hidden?'])
        """)
        assert seen.completed.stdout.kept == b"0\n"
        assert seen.starts[-1].argv == ("hidden?",)

    def test_program_whose_memory_cannot_be_read_cannot_start_others(self, observe: Observe) -> None:
        # A program without read permission is undumpable.
        seen = observe(
            "cp $(readlink -f /bin/sh) unreadable && chmod 0111 unreadable && ./unreadable -c '/bin/true; /bin/true'"
        )
        assert seen.completed.exit_code == 126
        assert seen.counts.refused >= 1
        assert seen.of("true") == []

    def test_invalid_addresses_fail_as_without_an_observer(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            for _ in range(50):
                print(libc.execve(ctypes.c_void_p(8), None, None), ctypes.get_errno())
        """)
        assert seen.completed.stdout.text == f"-1 {errno.EFAULT}\n" * 50
        assert seen.counts == ProcessCounts(started=2, dropped=0, refused=0)

    @pytest.mark.parametrize("link", [False, True])
    def test_next_program_does_not_hide_one_behind_a_link_to_itself(self, observe_python: Observe, link: bool) -> None:
        # The server cannot follow /proc/self of the caller, and the next program has the same name and arguments.
        seen = observe_python(f"""
            import os
            fd = os.open('/bin/sh', os.O_RDONLY)
            os.dup2(fd, 200)
            path = '/proc/self/fd/200'
            if {link}:
                os.symlink(path, 'true')
                path = os.path.abspath('true')
            line = 'echo hidden; exec /bin/true -c "$LINE"'
            os.execve(path, ['/bin/true', '-c', line], {{'LINE': line}})
        """)
        assert seen.completed.stdout.text == "hidden\n"
        assert [start.argv[0] for start in seen.starts[-2:]] == ["/bin/true", "/bin/true"]
        assert seen.starts[-2].program != "/bin/true"

    def test_missing_programs_of_many_processes_are_recorded(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import os, time
            for _ in range(5): os.fork()
            try:
                os.execv('/missing', ['x' * 30_000, str(os.getpid())])
            except OSError:
                time.sleep(1)
        """)
        assert len({start.argv[1] for start in seen.of("missing")}) == 32

    def test_flood_of_denied_calls_does_not_block_the_sandbox(self, sandbox: Sandbox) -> None:
        code = "import ctypes\nwhile True: ctypes.CDLL(None).unshare(0x10000000)"
        flood = sandbox.start(Command(line=f"for i in 1 2 3 4 5 6 7 8; do python3 -c '{code}' & done; wait"))
        for _ in range(10):
            assert sandbox.run(Command(line="/bin/echo alive", timeout_sec=60)).stdout.kept == b"alive\n"
        flood.kill()
        assert flood.wait().signal == 9

    def test_programs_with_their_own_filter_are_seen(self, observe_python: Observe) -> None:
        seen = observe_python("""
            import ctypes, os, struct
            libc = ctypes.CDLL(None, use_errno=True)
            code = ctypes.create_string_buffer(struct.pack('<HBBI', 6, 0, 0, 0x7fff0000))
            program = struct.pack('@HP', 1, ctypes.addressof(code))
            nr = {'x86_64': 317, 'aarch64': 277}[os.uname().machine]
            seccomp = lambda flags: libc.syscall(ctypes.c_long(nr), ctypes.c_long(1), ctypes.c_long(flags), program)
            print(seccomp(8), ctypes.get_errno(), seccomp(0), flush=True)
            os.execv('/bin/true', ['filtered'])
        """)
        # No second listener, which could answer in place of the server.
        assert seen.completed.stdout.text == f"-1 {errno.EBUSY} 0\n"
        assert seen.starts[-1].argv == ("filtered",)

    def test_other_system_call_tables_are_refused(self, observe_python: Observe) -> None:
        if platform.machine() != "x86_64":
            pytest.skip("other machines have one table")
        seen = observe_python("""
            import ctypes, mmap
            libc = ctypes.CDLL(None, use_errno=True)
            print(libc.syscall(ctypes.c_long(0x40000000 | 520), b'/bin/true', None, None), ctypes.get_errno())
            page = mmap.mmap(-1, 4096, prot=7)
            page.write(bytes.fromhex('53 b80b000000 31db 31c9 31d2 cd80 5b c3'))  # execve of i386
            address = ctypes.addressof(ctypes.c_char.from_buffer(page))
            print(ctypes.CFUNCTYPE(ctypes.c_int)(address)())
        """)
        assert seen.completed.stdout.text == f"-1 {errno.ENOSYS}\n-{errno.ENOSYS}\n"

    def test_listener_cannot_be_taken(self, sandbox: Sandbox) -> None:
        code = """
            import ctypes, os, sys
            libc = ctypes.CDLL(None, use_errno=True)
            print('ready', flush=True)
            tried = taken = 0
            while tried < 3000:
                for pid in [int(name) for name in os.listdir('/proc') if name.isdigit() and int(name) != os.getpid()]:
                    try:
                        process = os.pidfd_open(pid)
                    except OSError:
                        continue
                    for fd in range(3, 24):
                        tried += 1
                        got = libc.syscall(ctypes.c_long(438), process, fd, 0)
                        if got >= 0:
                            taken += 'seccomp' in os.readlink(f'/proc/self/fd/{got}')
                            os.close(got)
                    os.close(process)
            print(taken)
        """
        output: list[bytes] = []
        running = sandbox.start(
            Command(argv=("python3", "-c", textwrap.dedent(code)), timeout_sec=100), on_stdout=output.append
        )
        for _ in range(2000):
            if b"".join(output).count(b"\n") > 1:
                break
            sandbox.run(Command(argv=("/bin/true",)))
        assert running.wait().stdout.kept == b"ready\n0\n"

    def test_fork_bomb_ends_at_the_timeout(self, sandbox: Sandbox, observe: Observe) -> None:
        seen = observe("bomb() { /bin/true & bomb | bomb & }; bomb; sleep 60", timeout_sec=3.0)
        assert seen.counts.started > 1
        assert sandbox.kill_processes() == 0
        assert observe("/bin/true alive").starts[-1].argv == ("/bin/true", "alive")

    def test_kill_while_many_programs_start(self, sandbox: Sandbox) -> None:
        line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (while true; do /bin/true; done) & done; wait"
        for _ in range(5):
            many = threading.Event()
            running = sandbox.start(Command(line=line, timeout_sec=100), observe=set_after(many, 20))
            assert many.wait(60)
            running.kill()
            completed = running.wait()
            assert completed.signal == 9
            assert completed.processes is not None
            assert completed.processes.started >= 10
        assert sandbox.kill_processes() == 0

    def test_programs_of_processes_of_another_command_are_seen(self, sandbox: Sandbox) -> None:
        # A program could make any process of the same user start another one, for example with ptrace.
        other = sandbox.start(Command(line="read line; /bin/true $line", timeout_sec=100))
        go = [False]

        def on_event(event: ProcessStart | ProcessEnd) -> None:
            if isinstance(event, ProcessStart) and not go[0]:
                go[0] = True
                other.write(b"from-the-other\n")
            events.append(event)

        events: list[ProcessStart | ProcessEnd] = []
        line = "while [ ! -e /tmp/done ]; do sleep 0.1; done"
        running = sandbox.start(Command(line=line, timeout_sec=100), observe=on_event)
        other.wait()
        sandbox.run(Command(line="touch /tmp/done"))
        running.wait()
        starts = [event.argv for event in events if isinstance(event, ProcessStart)]
        assert ("/bin/true", "from-the-other") in starts
        # The program that the harness started itself is not attributed to the observed command.
        assert not [argv for argv in starts if "touch /tmp/done" in argv]

    def test_two_observed_commands_have_separate_records(self, sandbox: Sandbox) -> None:
        records: dict[str, list[ProcessStart]] = {"one": [], "two": []}
        line = "for i in 1 2 3 4 5; do /bin/true {0}; sleep 0.05; done"
        running = [
            sandbox.start(
                Command(line=line.format(name), timeout_sec=100),
                observe=lambda event, name=name: (
                    records[name].append(event) if isinstance(event, ProcessStart) else None
                ),  # type: ignore[misc]
            )
            for name in records
        ]
        for command in running:
            command.wait()
        for name, starts in records.items():
            assert [start.argv for start in starts if "true" in start.program] == [("/bin/true", name)] * 5


class TestWithoutObservation:
    def test_command_runs_unobserved_and_the_reason_is_given(
        self, backend: Backend, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AB_TEST_OBSERVATION_PROBLEM", "no seccomp listener: Device or resource busy")
        with backend.open(SPEC, prepared) as sandbox:
            assert sandbox.observation_problem == "no seccomp listener: Device or resource busy"
            seen = observe_in(sandbox, Command(line="/bin/true; unshare -U true; grep Seccomp: /proc/self/status"))
            assert seen.completed.processes is None
            assert seen.starts == []
            # The plain filter is applied instead.
            assert b"not permitted" in seen.completed.stderr.kept
            assert seen.completed.stdout.kept == b"Seccomp:\t2\n"
            assert sandbox.denied_calls() == {}

    def test_other_phases_are_not_observed(self, backend: Backend, prepared: Prepared) -> None:
        with backend.open(replace(SPEC, phase=Phase.GRADING), prepared) as sandbox:
            assert sandbox.observation_problem == "only sandboxes of the agent phase are observed"
            assert sandbox.run(Command(line="/bin/true"), observe=print).processes is None
            assert sandbox.denied_calls() == {}

    def test_error_of_the_observer_is_raised_at_the_end(self, sandbox: Sandbox) -> None:
        def fail(event: ProcessStart | ProcessEnd) -> None:
            raise RuntimeError("cannot record")

        with pytest.raises(RuntimeError, match="cannot record"):
            sandbox.run(Command(line="/bin/true"), observe=fail)
        assert sandbox.run(Command(line="echo alive")).stdout.kept == b"alive\n"


@pytest.mark.req("M-01b")
class TestDeniedCalls:
    def test_denied_calls_are_counted_by_class_and_still_refused(self, backend: Backend, sandbox: Sandbox) -> None:
        code = """
            import ctypes, os, socket
            libc = ctypes.CDLL(None, use_errno=True)
            call = lambda *numbers: (libc.syscall(*map(ctypes.c_long, numbers)), ctypes.get_errno())
            x86 = os.uname().machine == 'x86_64'
            print(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), ctypes.get_errno())
            print(libc.unshare(0x10000000), ctypes.get_errno())
            print(*call(250 if x86 else 219, 0, 0))
            print(*call(425, 1, 0))
            for family in (17, 17, 40):
                try:
                    socket.socket(family, 3)
                except OSError as error:
                    print(error.errno)
        """
        done = sandbox.run(Command(line="python3 -", stdin=textwrap.dedent(code).encode()))
        assert done.stdout.text == "-1 1\n" * 4 + "97\n" * 3, done.stderr.text
        counts = sandbox.denied_calls()
        if backend.name == "bwrap":
            assert counts == {"io_uring": 1, "keys": 1, "mount": 1, "namespaces": 1, "socket_family": 3}
        else:
            # The engine's own filter answers first, and its denials cannot be counted.
            assert counts["socket_family"] >= 2

    def test_nothing_is_counted_for_ordinary_programs(self, sandbox: Sandbox) -> None:
        sandbox.run(Command(line="python3 -c 'import socket, threading; socket.socket().close()'; ls / | sort"))
        assert sandbox.denied_calls() == {}


@pytest.mark.parametrize("character", [b"x", b"\xff", b"\x01"])
def test_host_bounds_what_it_passes_on_by_its_size_in_a_log(character: bytes) -> None:
    received: list[ProcessStart | ProcessEnd] = []
    programs = ObservedPrograms(received.append)
    entry = pack([b"start", b"1", b"0", b"2", b"1", b"0", b"/bin/true", b"/", character * 60_000])
    programs.receive([entry] * 400)
    assert programs.started == 400
    assert programs.dropped == 400 - len(received) > 0
    logged = sum(len(canonical(list(event.argv))) for event in received if isinstance(event, ProcessStart))
    assert logged < 32 << 20
