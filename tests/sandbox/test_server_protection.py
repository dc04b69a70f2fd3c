"""The command server is out of reach of the commands that it runs, and of everything that they start."""

from __future__ import annotations

import signal
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.sandbox.protocol import Backend, Phase, Prepared, Sandbox
from tests.sandbox import server_attacks
from tests.sandbox.conftest import SPEC
from tests.sandbox.test_lost_sandbox import pid_1

BACKENDS = ["bwrap", "docker"]
ATTACKS = Path(server_attacks.__file__).read_bytes()

pytestmark = [pytest.mark.req("R-06"), pytest.mark.component]


@pytest.fixture(params=[Phase.SETUP, Phase.AGENT, Phase.GRADING], ids=str)
def phase_sandbox(request: pytest.FixtureRequest, backend: Backend, prepared: Prepared) -> Iterator[Sandbox]:
    with backend.open(replace(SPEC, phase=request.param), prepared) as opened:
        yield opened


def python(sandbox: Sandbox, code: str, timeout_sec: float = 60) -> str:
    stdin = textwrap.dedent(code).encode()
    done = sandbox.run(Command(argv=("python3", "-"), stdin=stdin, timeout_sec=timeout_sec))
    return done.stdout.text + done.stderr.text


def answers(sandbox: Sandbox) -> bool:
    """Return whether the sandbox runs the next command, and no process is left of the last one."""
    return sandbox.run(Command(line="echo alive")).stdout.kept == b"alive\n" and sandbox.kill_processes() == 0


def test_no_command_reaches_the_server(phase_sandbox: Sandbox) -> None:
    done = phase_sandbox.run(Command(argv=("python3", "-"), stdin=ATTACKS))
    assert (done.stdout.text, done.stderr.text) == ("tried\n", "")
    assert answers(phase_sandbox)


def test_programs_control_themselves_and_their_children(phase_sandbox: Sandbox) -> None:
    code = """
        import multiprocessing, os, resource, signal, subprocess

        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        for pid in (0, os.getpid(), child.pid):
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
            os.sched_setaffinity(pid, os.sched_getaffinity(0))
            os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, pid, own + 1)
        os.setpriority(os.PRIO_PGRP, 0, own + 2)
        os.setpriority(os.PRIO_PGRP, child.pid, own + 3)
        print(os.nice(1) - own, os.getpriority(os.PRIO_PROCESS, child.pid) - own)
        os.kill(child.pid, 0)
        os.killpg(child.pid, signal.SIGTERM)
        print(child.wait())
        with multiprocessing.Pool(2) as pool:
            print(pool.map(abs, [-1, -2]))
    """
    assert python(phase_sandbox, code) == "3 3\n-15\n[1, 2]\n"
    assert phase_sandbox.denied_calls() == {}


def test_shell_tools_change_limits_and_priorities(sandbox: Sandbox) -> None:
    tools = "ulimit -n 64", "nice -n 1 true", "renice -n 19 -p $$", "taskset -p $$", "ionice -c 3 true"
    done = sandbox.run(Command(line="sleep 60 & " + " && ".join(tools) + " && kill $! && ulimit -n"))
    assert (done.exit_code, done.stdout.text.splitlines()[-1:]) == (0, ["64"]), done.stderr.text


def test_attempts_to_change_the_server_are_counted(sandbox: Sandbox) -> None:
    code = """
        import os, resource
        for change in (lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)), lambda: os.kill(1, 9)):
            try:
                change()
            except PermissionError as error:
                print(error.errno)
    """
    assert python(sandbox, code) == "1\n1\n"
    assert sandbox.denied_calls() == {"command_server": 1}


def test_no_signal_interrupts_the_server(sandbox: Sandbox) -> None:
    """A handler would run for every signal that processes send it without pause."""
    done = sandbox.run(Command(line="grep -hE '^Sig(Blk|Cgt):' /proc/1/status; grep '^SigBlk:' /proc/self/status"))
    blocked, handled, blocked_in_command = (int(line.split()[1], 16) for line in done.stdout.text.splitlines())
    assert (blocked, handled, blocked_in_command) == (1 << signal.SIGCHLD - 1, 0, 0)


def test_server_needs_nothing_that_is_limited_per_user(phase_sandbox: Sandbox) -> None:
    """Sandboxes share a user: one that used up its epoll watches would keep the others from starting."""
    assert answers(phase_sandbox)
    try:
        held = [str(fd.readlink()) for fd in Path(f"/proc/{pid_1(phase_sandbox)}/fd").iterdir()]
    except PermissionError:
        pytest.skip("only root may list the server's descriptors")
    assert "anon_inode:[signalfd]" in held
    assert not [target for target in held if "eventpoll" in target or "inotify" in target]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param("os.fork() or (os.fork() and os._exit(0)) or os._exit(0)", id="orphans"),
        pytest.param("send(server, 17, None, 0)", id="child signals"),
        pytest.param("os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)) or os.fork()", id="idle processes"),
    ],
)
def test_floods_end_with_their_command(sandbox: Sandbox, attack: str) -> None:
    code = f"""
        import os, signal
        server = os.open("/proc/1", os.O_RDONLY)
        send = getattr(signal, "pidfd_send_signal", lambda *_: None)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for _ in range(4):
            os.fork()
        while True:
            try:
                {attack}
            except OSError:
                pass
    """
    done = sandbox.run(Command(argv=("python3", "-c", textwrap.dedent(code)), timeout_sec=1))
    assert done.timed_out or done.exit_code, "the flood ends at its time limit or at the limit of processes"
    assert answers(sandbox)


def test_job_that_forks_without_pause_ends_beside_another_job(sandbox: Sandbox) -> None:
    other = sandbox.start(Command(line="cat", timeout_sec=300))
    code = """
        import os
        for _ in range(4):
            os.fork()
        while True:
            try:
                if os.fork():
                    os._exit(0)
                os.setsid()
            except OSError:
                pass
    """
    sandbox.run(Command(argv=("python3", "-c", textwrap.dedent(code)), timeout_sec=1))
    other.close_stdin()
    other.wait()
    assert answers(sandbox)
