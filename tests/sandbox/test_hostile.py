"""Code that attacks its sandbox, the harness or the host. Each attack is just a result, and the next command runs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import socket
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import MIB, Command, Completed
from agentbench.sandbox.protocol import Backend, Limits, Prepared, Sandbox
from tests.sandbox.conftest import SPEC

Run = Callable[..., Completed]
FILL_NETWORK_BUFFERS = """
import contextlib, socket
server, held, sent = socket.create_server(("127.0.0.1", 0)), [], 0
while sent < 200 << 20 and len(held) < 200:
    client = socket.create_connection(server.getsockname())
    held.append((client, server.accept()))
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True: sent += client.send(bytes(1 << 18))
print(sent >> 20)
"""

BACKENDS = ["bwrap", "docker"]

pytestmark = [pytest.mark.req("R-06"), pytest.mark.component]


def python(sh: Run, code: str, **options: object) -> Completed:
    return sh("python3 -", stdin=code.encode(), **options)


class TestBombs:
    def test_fork_bomb_is_limited_and_leaves_no_process(self, sandbox: Sandbox, sh: Run) -> None:
        done = sh(":() { : | : & }; :", timeout_sec=3)
        assert done.killed <= 64
        assert sandbox.kill_processes() == 0
        assert sh("echo alive").stdout.kept == b"alive\n"

    def test_forks_beyond_the_limit_are_refused(self, backend: Backend, sh: Run) -> None:
        if backend.limits().pids != "hard":
            pytest.skip("no process limit on this machine")
        code = (
            "import os, sys, time\n"
            "n = 0\n"
            "try:\n"
            "    while True:\n"
            "        if os.fork() == 0: time.sleep(60)\n"
            "        n += 1\n"
            "except OSError: print(n)\n"
        )
        done = python(sh, code)
        assert 20 < int(done.stdout.kept) < 64
        assert done.killed == int(done.stdout.kept)

    def test_memory_bomb_is_killed_and_reported(self, sh: Run) -> None:
        done = python(sh, "x = []\nwhile True: x.append(bytearray(1 << 20))\n")
        assert done.exit_code != 0
        assert done.oom or done.signal == 9 or b"MemoryError" in done.stderr.kept
        assert sh("echo alive").stdout.kept == b"alive\n"

    def test_memory_bomb_with_many_processes_is_killed(self, sh: Run) -> None:
        code = "import os\nfor _ in range(8): os.fork()\nx = []\nwhile True: x.append(bytearray(1 << 20))\n"
        done = python(sh, code, timeout_sec=20)
        assert not done.ok
        assert sh("echo alive").stdout.kept == b"alive\n"

    def test_processes_that_fork_at_the_memory_limit_are_killed(self, backend: Backend, prepared: Prepared) -> None:
        """They wait for memory by the hundred, and the command server with them."""
        if backend.limits().memory != "hard":
            pytest.skip("no memory cgroup on this machine")
        code = """
            import os
            memory = bytearray(b"x" * (3 << 20))
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
                memory += b"x" * (64 << 10)
        """
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=128, pids=256, disk_mb=64))
        with backend.open(spec, prepared) as opened:
            done = opened.run(Command(argv=("python3", "-c", textwrap.dedent(code)), timeout_sec=60))
            assert not done.ok
            assert opened.run(Command(line="echo alive")).stdout.kept == b"alive\n"

    @pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm", "/home/agent", "/opt/env"])
    def test_full_disk_is_no_space_and_not_an_oom(self, sandbox: Sandbox, sh: Run, place: str) -> None:
        done = sh(f"head -c 100M /dev/zero > {place}/fill")
        assert done.exit_code != 0
        assert re.search(b"No space left|File too large|File size limit", done.stderr.kept)
        assert not done.oom
        assert sh(f"rm {place}/fill && echo alive").stdout.kept == b"alive\n"
        assert sandbox.usage().oom_kills in {0, None}

    def test_no_other_folder_is_writable(self, sh: Run) -> None:
        done = sh("for d in / /usr /etc /run /var /dev /proc /sys /opt /home; do echo x > $d/fill && echo $d; done")
        assert done.stdout.kept == b""

    @pytest.mark.parametrize("backend", ["bwrap"], indirect=True)
    def test_inode_bomb_is_no_space(self, sandbox: Sandbox, sh: Run) -> None:
        code = (
            "try:\n    for i in range(10**6): open(f'f{i}', 'w').close()\nexcept OSError as e: print(e.strerror, i)\n"
        )
        done = python(sh, code)
        assert done.stdout.kept.startswith(b"No space left on device")
        assert sum(1 for _ in sandbox.tree().entries()) > 10_000

    def test_gigabyte_of_output_does_not_grow_the_harness(self, sh: Run) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = sh("head -c 1100M /dev/zero", keep_bytes=100_000, timeout_sec=100)
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert done.stdout.total_bytes == 1100 * MIB
        assert len(done.stdout.head) + len(done.stdout.tail) == 100_000
        assert grown_kb < 20_000

    def test_huge_lines_on_both_streams_are_digested(self, sh: Run) -> None:
        done = python(sh, "import os\nfor _ in range(64): os.write(1, b'x' * 1048576); os.write(2, b'y' * 1048576)")
        assert done.stdout.total_bytes == done.stderr.total_bytes == 64 * MIB
        digest = hashlib.sha256()
        for _ in range(64):
            digest.update(b"y" * MIB)
        assert done.stderr.sha256 == digest.hexdigest()

    def test_endless_output_is_ended_by_the_timeout(self, sh: Run) -> None:
        done = sh("yes", timeout_sec=2)
        assert done.timed_out
        assert done.stdout.total_bytes > MIB


class TestKillingTheServer:
    @pytest.mark.parametrize("line", ["kill -9 1", "kill -9 -1", "for s in $(seq 1 64); do kill -$s 1; done; true"])
    def test_signals_do_not_end_the_server(self, sh: Run, line: str) -> None:
        sh(line)
        assert sh("echo alive").stdout.kept == b"alive\n"

    def test_memory_of_the_server_cannot_be_read(self, sh: Run) -> None:
        code = (
            "import os, ctypes\n"
            "for name in ('mem', 'environ', 'maps', 'root', 'cwd', 'fd', 'exe', 'io'):\n"
            "    try:\n"
            "        path = f'/proc/1/{name}'\n"
            "        os.listdir(path) if name in ('fd', 'root', 'cwd') else open(path, 'rb').read(1)\n"
            "        print('open', name)\n"
            "    except OSError: pass\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "print('ptrace', libc.ptrace(16, 1, 0, 0), libc.ptrace(0x4206, 1, 0, 0))\n"
            "buffer = ctypes.create_string_buffer(8)\n"
            "print('pidfd', libc.syscall(438, libc.syscall(434, 1, 0), 0, 0))\n"
        )
        assert python(sh, code).stdout.kept == b"ptrace -1 -1\npidfd -1\n"

    def test_no_process_can_stop_others_when_they_exit(self, sh: Run) -> None:
        code = (
            "import ctypes, os\n"
            "child = os.fork()\n"
            "if not child: os.read(os.pipe()[0], 1)\n"
            "libc = ctypes.CDLL(None)\n"
            "print(*(libc.ptrace(0x4206, child, 0, options) for options in (0x40, 1)), libc.ptrace(0x4200, child, 0, 0x40))\n"
        )
        assert python(sh, code).stdout.kept == b"-1 0 -1\n"

    def test_descriptors_of_the_server_are_not_inherited(self, sh: Run) -> None:
        assert sh("ls /proc/self/fd").stdout.kept == b"0\n1\n2\n3\n"  # 3 is the folder that ls reads

    def test_exhausted_descriptors_do_not_stop_the_server(self, sh: Run) -> None:
        python(sh, "import os\nx = []\ntry:\n    while True: x += os.pipe()\nexcept OSError as e: print(e)\n")
        assert sh("echo alive").stdout.kept == b"alive\n"

    def test_forged_frames_on_stdout_are_plain_output(self, sh: Run) -> None:
        forged = b"\0\0\0\x10\0\0\0\x04done\0\0\0\x011"
        done = sh("cat", stdin=forged)
        assert done.stdout.kept == forged

    def test_stopped_processes_are_killed_by_the_timeout(self, sh: Run) -> None:
        done = sh("kill -STOP -1; kill -STOP $$; sleep 60", timeout_sec=1)
        assert not done.ok
        assert sh("echo alive").stdout.kept == b"alive\n"


class TestEscapes:
    def test_commands_have_no_capabilities(self, sh: Run) -> None:
        done = sh(
            "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; id -u"
        )
        zero = "0" * 16
        caps = "".join(f"{name}:{zero}\n" for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
        assert done.stdout.kept.decode() == f"{caps}NoNewPrivs:1\nSeccomp:2\n1000\n"

    @pytest.mark.skipif(os.geteuid() != 0, reason="the harness is not root")
    def test_host_uid_is_not_root_even_if_the_harness_is(self, sandbox: Sandbox) -> None:
        running = sandbox.start(Command(line="exec sleep 61.5", timeout_sec=60))
        owners: set[int] = set()
        while not owners:
            for folder in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    if (folder / "cmdline").read_bytes() == b"sleep\x0061.5\0":
                        owners.add(folder.stat().st_uid)
        running.kill()
        running.wait()
        assert 0 not in owners

    @pytest.mark.parametrize(
        "line",
        [
            "echo x > /proc/sys/kernel/core_pattern",
            "echo 1 > /proc/sys/vm/drop_caches",
            "echo b > /proc/sysrq-trigger",
            "mount -t tmpfs x /tmp",
            "mount -o remount,rw /",
            "mount --bind /tmp /etc",
            "umount /proc",
            "unshare -U true",
            "unshare -m true",
            "unshare -Ur chroot / true",
            "chroot / true",
            "mknod /tmp/disk b 254 0",
            "cat /etc/shadow",
            "ls /root",
            "ls /boot",
            "cat /proc/kcore",
            "cat /proc/keys",
            "cat /proc/1/environ",
            "dmesg",
            "hostname evil",
            "date -s 2001-01-01",
            "nice -n -5 true 2>&1 | grep -q denied && false",
            "su -c true",
            "touch /usr/bin/evil",
            "echo x > /etc/passwd",
            "echo x >> /etc/agentbench/server.pyc",
            "ln -s x /new",
            "echo 0 > /proc/1/oom_score_adj",
        ],
    )
    def test_privileged_operation_is_refused(self, sh: Run, line: str) -> None:
        done = sh(line)
        # Files that a docker engine masks read as empty.
        assert done.exit_code != 0 or (line.startswith(("cat ", "ls ")) and done.stdout.kept == b"")

    def test_denied_system_calls_fail(self, sh: Run) -> None:
        code = (
            "import ctypes, errno, os, platform, socket\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "x86 = platform.machine() == 'x86_64'\n"
            "calls = {'keyctl': 250, 'add_key': 248, 'bpf': 321, 'userfaultfd': 323, 'perf_event_open': 298,\n"
            "         'unshare': 272, 'setns': 308, 'mount': 165, 'io_uring_setup': 425, 'fsopen': 430} if x86 else\\\n"
            "        {'keyctl': 219, 'add_key': 217, 'bpf': 280, 'userfaultfd': 282, 'perf_event_open': 241,\n"
            "         'unshare': 97, 'setns': 268, 'mount': 40, 'io_uring_setup': 425, 'fsopen': 430}\n"
            "for name, number in calls.items():\n"
            "    result = libc.syscall(number, 0, 0, 0, 0, 0)\n"
            "    if result != -1 or ctypes.get_errno() != errno.EPERM: print('passed', name, ctypes.get_errno())\n"
            "for family in (40, 38, 17, 31):\n"  # vsock, alg, packet, bluetooth
            "    try: socket.socket(family, socket.SOCK_STREAM); print('family', family)\n"
            "    except OSError: pass\n"
            "import fcntl\n"
            "try: fcntl.ioctl(0, 0x5412, b'x'); print('tiocsti')\n"
            "except OSError as e: print(errno.errorcode[e.errno])\n"
            "import threading, subprocess\n"
            "threading.Thread(target=print, args=('thread',)).start()\n"
            "print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n"
        )
        assert python(sh, code).stdout.kept == b"EPERM\nthread\nb'child\\n'\n"

    def test_host_files_and_processes_are_not_visible(self, sh: Run, tmp_path: Path) -> None:
        secret = tmp_path / "host-secret"
        secret.write_text("secret")
        assert sh(f"cat {secret}").exit_code != 0
        done = sh(f"ls /proc | grep -c '^[0-9]'; ls {tmp_path.parent}; find /mnt /srv /media /work -mindepth 1")
        assert int(done.stdout.kept.split()[0]) < 8
        assert done.stdout.kept.count(b"\n") == 1

    def test_abstract_sockets_of_the_host_are_unreachable(self, sh: Run) -> None:
        with socket.socket(socket.AF_UNIX) as server:
            name = f"\0agentbench-test-{os.getpid()}"
            server.bind(name)
            server.listen()
            code = f"import socket\ns = socket.socket(socket.AF_UNIX)\nprint(s.connect_ex({name!r}))"
            assert python(sh, code).stdout.kept != b"0\n"

    def test_mount_table_does_not_reveal_host_paths(self, backend: Backend, sh: Run, state: Path) -> None:
        table = sh("cat /proc/self/mountinfo /proc/self/mounts").stdout.kept.decode()
        assert "lowerdir" in table
        file_system = next(folder for folder in state.parents if folder.is_mount())
        # The table has paths below the root of their file system.
        revealing = [line for line in table.splitlines() if f"/{state.relative_to(file_system)}" in line]
        # A docker engine shows the source of a bind; the only one is the empty folder that held the server's socket.
        assert [line.split()[4] for line in revealing] == (["/opt/agentbench/link"] if backend.name == "docker" else [])

    def test_setuid_programs_gain_no_privileges(self, sh: Run) -> None:
        assert sh("find /usr/bin -perm -4000 | head -1 | xargs -r -n1 stat -c %U").exit_code == 0
        assert sh("cp $(command -v id) x && chmod 6755 x && ./x -u").stdout.kept == b"1000\n"


class TestLimits:
    def test_cpu_quota_is_enforced(self, backend: Backend, prepared: Prepared) -> None:
        if backend.limits().cpu != "hard":
            pytest.skip("no cpu limit on this machine")
        spec = replace(SPEC, limits=Limits(cpus=0.25, memory_mb=256, pids=32, disk_mb=32))
        with backend.open(spec, prepared) as opened:
            opened.run(Command(line="timeout 1 sh -c 'while :; do :; done'"))
            used = opened.usage().cpu_sec
        assert used is not None
        assert used < 0.6

    def test_full_disk_takes_no_memory_from_programs(self, backend: Backend, prepared: Prepared) -> None:
        """The writable layer is in memory: filling it must not kill programs or reduce their memory."""
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=128, pids=32, disk_mb=64))
        with backend.open(spec, prepared) as opened:
            assert not opened.run(Command(line="cat /dev/zero > fill")).oom
            done = opened.run(Command(line="python3 -c 'x = bytearray(80 << 20); print(len(x))'"))
            assert done.stdout.kept == b"%d\n" % (80 << 20)

    @pytest.mark.parametrize(
        "allocate",
        ["x = b'x' * (900 << 20)", "import mmap; x = mmap.mmap(-1, 900 << 20); x.write(b'x' * len(x))"],
        ids=["private", "shared"],
    )
    def test_memory_limit_of_programs_excludes_the_disk_limit(
        self, backend: Backend, prepared: Prepared, allocate: str
    ) -> None:
        if backend.limits().memory != "hard":
            pytest.skip("no memory cgroup on this machine")
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=300, pids=32, disk_mb=2048))
        with backend.open(spec, prepared) as opened:
            done = opened.run(Command(argv=("python3", "-c", f"{allocate}; import time; time.sleep(20)")))
            assert (done.exit_code, done.signal, done.oom) == (137, 9, True)
            assert (opened.usage().oom_kills or 0) >= 1
            fine = opened.run(Command(line="echo alive"))
            assert (fine.stdout.kept, fine.oom) == (b"alive\n", False)

    def test_files_in_memory_do_not_count_as_program_memory(self, backend: Backend, prepared: Prepared) -> None:
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=300, pids=32, disk_mb=300))
        with backend.open(spec, prepared) as opened:
            line = "head -c 250M /dev/zero > /tmp/fill && python3 -c 'x = b\"x\" * (200 << 20); import time; time.sleep(0.3)'"
            done = opened.run(Command(line=line))
            assert (done.exit_code, done.oom) == (0, False), done
            assert opened.usage().oom_kills in {0, None}

    def test_only_the_command_over_the_memory_limit_is_killed(self, backend: Backend, prepared: Prepared) -> None:
        if backend.limits().memory != "hard":
            pytest.skip("no memory cgroup on this machine")
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=200, pids=32, disk_mb=1024))
        with backend.open(spec, prepared) as opened:
            other = opened.start(Command(line="touch started; read line; echo got $line"))
            opened.run(Command(line="until [ -e started ]; do sleep 0.05; done"))
            done = opened.run(Command(argv=("python3", "-c", "x = b'x' * (400 << 20); import time; time.sleep(20)")))
            assert (done.exit_code, done.oom) == (137, True)
            other.write(b"word\n")
            rest = other.wait()
            assert (rest.stdout.kept, rest.oom) == (b"got word\n", False)

    def test_network_buffers_are_limited(self, backend: Backend, prepared: Prepared) -> None:
        """All sandboxes and the host share one pool. Version 1 of cgroups does not count it as memory."""
        if backend.name != "bwrap" or backend.limits().memory != "hard":
            pytest.skip("the harness does not create the memory cgroup")
        spec = replace(SPEC, limits=Limits(cpus=2, memory_mb=128, pids=32, disk_mb=32))
        with backend.open(spec, prepared) as opened:
            done = opened.run(Command(argv=("python3", "-"), stdin=FILL_NETWORK_BUFFERS.encode()))
            assert done.oom or int(done.stdout.kept) < 160, done
            assert opened.run(Command(line="echo alive")).stdout.kept == b"alive\n"

    def test_core_files_are_not_written(self, sh: Run) -> None:
        sh("ulimit -c unlimited; sh -c 'kill -SEGV $$'")
        assert sh("ls core* /tmp/core*").exit_code != 0


def test_workspace_without_any_rights_is_read_as_it_is(sandbox: Sandbox, sh: Run) -> None:
    """An error here would be the harness's, and an agent that expects to fail could cause it."""
    assert sh("mkdir -p deep && echo x > deep/new && chmod 0 .").ok
    assert b"deep/new" in {entry.path for entry in sandbox.tree().entries()}
    assert sandbox.tree().read(b"deep/new", max_bytes=10) == b"x\n"


def test_times_of_devices_of_the_host_cannot_be_set(sh: Run) -> None:
    """All sandboxes would share them, and one could leave a message there for a later one."""
    devices = [Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom", "tty")]
    before = [device.stat().st_mtime_ns for device in devices]
    sh("touch /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty")
    assert [device.stat().st_mtime_ns for device in devices] == before
    assert sh("echo written > /dev/null && echo written > /dev/zero").exit_code == 0
