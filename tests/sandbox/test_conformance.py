"""The behaviour that every backend must have, tested on each of them."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import MIB, Command, Completed
from agentbench.core.errors import PatchInvalid, SandboxUnavailable
from agentbench.sandbox.protocol import Backend, Mount, Prepared, Sandbox
from agentbench.tree.entry import FileWrite, Kind
from tests.sandbox.conftest import SPEC

pytestmark = pytest.mark.component

Run = Callable[..., Completed]

BACKENDS = ["bwrap", "docker"]


class TestCommands:
    def test_exit_code_and_both_streams(self, sh: Run) -> None:
        done = sh("echo out; echo err >&2; exit 3")
        assert (done.exit_code, done.stdout.kept, done.stderr.kept) == (3, b"out\n", b"err\n")
        assert not done.timed_out
        assert done.signal is None
        assert done.stdout.sha256 == hashlib.sha256(b"out\n").hexdigest()

    def test_argument_vector_needs_no_shell(self, sandbox: Sandbox) -> None:
        done = sandbox.run(Command(argv=("printf", "%s|%s", "a b", "$HOME")))
        assert done.stdout.kept == b"a b|$HOME"

    def test_death_by_signal(self, sh: Run) -> None:
        done = sh("kill -SEGV $$")
        assert (done.exit_code, done.signal) == (139, 11)

    def test_missing_program_is_a_result(self, sandbox: Sandbox) -> None:
        done = sandbox.run(Command(argv=("no-such-program",)))
        assert done.exit_code == 127
        assert b"no such program" in done.stderr.kept

    @pytest.mark.parametrize("cwd", ["/workspace/absent", "/workspace/README", "/proc/self/mem"])
    def test_working_folder_that_cannot_be_entered_is_a_result(self, sh: Run, cwd: str) -> None:
        done = sh("echo here", cwd=cwd)
        assert done.exit_code in {126, 127}
        assert b"cannot start" in done.stderr.kept

    def test_working_folder_and_environment(self, sh: Run) -> None:
        done = sh("pwd; cd src; pwd; echo $DECLARED $MORE $HOME $USER; id -un", env={"MORE": "more"})
        assert done.stdout.kept == b"/workspace\n/workspace/src\nyes more /home/agent agent\nagent\n"

    def test_host_environment_is_not_inherited(self, sh: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOST_ONLY", "secret")
        assert b"HOST_ONLY" not in sh("env; cat /proc/*/environ").stdout.kept

    def test_shell_line_longer_than_one_argument_runs(self, sh: Run) -> None:
        done = sh("true " + "x" * 300_000 + "\necho done")
        assert done.stdout.kept == b"done\n"

    def test_argument_vector_that_is_too_long_is_a_result(self, sandbox: Sandbox) -> None:
        done = sandbox.run(Command(argv=("true", "x" * 300_000)))
        assert done.exit_code == 126

    def test_timeout_is_reported_in_the_result(self, sh: Run) -> None:
        done = sh("echo begun; sleep 60", timeout_sec=2)
        assert (done.timed_out, done.exit_code, done.stdout.kept) == (True, None, b"begun\n")
        assert done.duration_sec < 30

    def test_python_and_pip_are_the_environments(self, sh: Run) -> None:
        done = sh("command -v python; command -v pip; python -c 'import sys; print(sys.prefix)'")
        assert done.stdout.kept == b"/opt/env/bin/python\n/opt/env/bin/pip\n/opt/env\n"


class TestStreams:
    def test_binary_output_is_kept_unchanged(self, sh: Run) -> None:
        done = sh("python3 -c 'import os; os.write(1, bytes(range(256)) * 4)'")
        assert done.stdout.kept == bytes(range(256)) * 4

    def test_long_output_keeps_both_ends_and_the_digest_of_all(self, sh: Run) -> None:
        done = sh("python3 -c 'print(\"\\n\".join(map(str, range(100000))))'", keep_bytes=1000)
        whole = "\n".join(map(str, range(100000))).encode() + b"\n"
        assert done.stdout.total_bytes == len(whole)
        assert done.stdout.sha256 == hashlib.sha256(whole).hexdigest()
        assert (done.stdout.head, done.stdout.tail) == (whole[:500], whole[-500:])

    def test_stdin_reaches_the_command(self, sh: Run) -> None:
        data = bytes(range(256)) * 8192
        done = sh("sha256sum", stdin=data)
        assert done.stdout.kept.split()[0].decode() == hashlib.sha256(data).hexdigest()

    def test_command_without_stdin_reads_end_of_file(self, sh: Run) -> None:
        assert sh("cat; echo end", timeout_sec=20).stdout.kept == b"end\n"

    def test_unread_stdin_does_not_block(self, sh: Run) -> None:
        assert sh("exec true", stdin=b"x" * (4 * MIB)).exit_code == 0

    def test_closed_stdout_is_not_an_error(self, sh: Run) -> None:
        assert sh("exec >&- 2>&-; exit 4").exit_code == 4

    def test_side_channel_is_separate_from_stdout(self, sh: Run) -> None:
        done = sh("echo visible; echo result >&$AB_RESULT_FD", side_channel=True)
        assert (done.stdout.kept, done.side, done.side_truncated) == (b"visible\n", b"result\n", False)

    def test_side_channel_is_capped(self, sh: Run) -> None:
        done = sh("head -c 100000 /dev/zero >&3", side_channel=True, side_bytes=1000)
        assert (len(done.side), done.side_truncated) == (1000, True)

    def test_no_side_channel_unless_requested(self, sh: Run) -> None:
        assert sh("echo x >&3").exit_code != 0
        assert sh('echo "[$AB_RESULT_FD]"').stdout.kept == b"[]\n"


class TestStartedCommands:
    def test_stdin_and_stdout_are_interactive(self, sandbox: Sandbox) -> None:
        answers: list[bytes] = []
        received = threading.Event()

        def listen(data: bytes) -> None:
            answers.append(data)
            received.set()

        running = sandbox.start(Command(line="while read x; do echo got $x; done; echo bye >&2"), on_stdout=listen)
        running.write(b"one\n")
        assert received.wait(60)
        assert answers[0] == b"got one\n"
        running.write(b"two\n")
        running.close_stdin()
        done = running.wait()
        assert (done.exit_code, done.stdout.kept, done.stderr.kept) == (0, b"got one\ngot two\n", b"bye\n")
        assert b"".join(answers) == done.stdout.kept

    def test_kill_ends_the_command(self, sandbox: Sandbox) -> None:
        running = sandbox.start(Command(line="echo up; sleep 60 & sleep 60"))
        running.kill()
        done = running.wait()
        assert done.signal == 9

    def test_writing_after_the_end_is_dropped(self, sandbox: Sandbox) -> None:
        running = sandbox.start(Command(line="exit 0"))
        assert running.wait().exit_code == 0
        running.write(b"x" * (3 * MIB))
        running.close_stdin()
        running.kill()

    def test_error_in_a_callback_is_raised_by_wait(self, sandbox: Sandbox) -> None:
        def fail(data: bytes) -> None:
            raise RuntimeError(data.decode().strip())

        with pytest.raises(RuntimeError, match="printed"):
            sandbox.start(Command(line="echo printed"), on_stdout=fail).wait()
        assert sandbox.run(Command(line="true")).ok

    def test_slow_listener_does_not_stop_other_commands(self, sandbox: Sandbox) -> None:
        gate = threading.Event()
        received = [0]

        def slow(data: bytes) -> None:
            received[0] += len(data)
            if received[0] > 100_000:
                gate.wait(0.001)

        flood = sandbox.start(Command(line=f"head -c {64 * MIB} /dev/zero", timeout_sec=90), on_stdout=slow)
        assert sandbox.run(Command(line="echo alive", timeout_sec=60)).stdout.kept == b"alive\n"
        gate.set()
        assert flood.wait().stdout.total_bytes == 64 * MIB
        assert received[0] == 64 * MIB


class TestConcurrency:
    def test_eight_commands_at_once(self, sandbox: Sandbox) -> None:
        results: dict[int, bytes] = {}

        def run(number: int) -> None:
            line = f"sleep 0.0{number}; echo {number}"
            results[number] = sandbox.run(Command(line=line, timeout_sec=60)).stdout.kept

        threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: f"{number}\n".encode() for number in range(8)}

    def test_ended_command_takes_only_its_own_background_processes(self, sandbox: Sandbox) -> None:
        other = sandbox.start(Command(line="sleep 300 & echo $!; wait", timeout_sec=60))
        stray = sandbox.run(Command(line="setsid sleep 400 >/dev/null 2>&1 & echo left", timeout_sec=60))
        assert (stray.stdout.kept, stray.killed) == (b"left\n", 1)
        alive = sandbox.run(Command(line="pgrep -a sleep", timeout_sec=60)).stdout.kept
        assert b"sleep 300" in alive
        assert b"sleep 400" not in alive
        other.kill()
        other.wait()


class TestLeftoverProcesses:
    def test_background_child_is_dead_when_run_returns(self, sh: Run) -> None:
        done = sh("sleep 500 & echo started")
        assert (done.exit_code, done.stdout.kept, done.killed) == (0, b"started\n", 1)
        assert sh("pgrep sleep").exit_code == 1

    def test_daemon_that_ignores_signals_is_killed(self, sh: Run) -> None:
        daemon = "import os, signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; os.setsid(); time.sleep(600)"
        done = sh(f"(python3 -c '{daemon}' &) ; sleep 0.3; echo parent")
        assert (done.exit_code, done.stdout.kept) == (0, b"parent\n")
        assert done.killed >= 1
        assert sh("pgrep -f [t]ime.sleep").exit_code == 1

    def test_process_that_exits_within_the_grace_period_is_not_killed(self, sh: Run) -> None:
        # On a busy machine the process may need longer than the grace period.
        runs = [sh("(sleep 0.01; echo late) & echo first")]
        while runs[-1].killed and len(runs) < 20:
            runs.append(sh("(sleep 0.01; echo late) & echo first"))
        assert (runs[-1].stdout.kept, runs[-1].killed) == (b"first\nlate\n", 0)

    def test_timeout_kills_all_processes(self, sh: Run) -> None:
        done = sh("for i in 1 2 3; do setsid sleep 500 & done; sleep 500", timeout_sec=3)
        assert done.timed_out
        assert done.killed == 4
        assert sh("pgrep sleep").exit_code == 1

    def test_kill_processes_counts_and_kills_all(self, sandbox: Sandbox) -> None:
        running = sandbox.start(Command(line="sleep 500 & sleep 500 & wait", timeout_sec=60))
        while sandbox.run(Command(line="pgrep -c sleep")).stdout.kept != b"2\n":
            time.sleep(0.01)
        assert sandbox.kill_processes() == 3
        assert running.wait().signal == 9
        assert sandbox.kill_processes() == 0


class TestWorkspace:
    def test_starts_from_what_setup_left(self, sh: Run) -> None:
        done = sh("cat artefact ~/.config/tool keep/file; ./run.sh; readlink link; tool")
        assert done.stdout.kept == b"built\nsetting\nkept\nran\nREADME\ntool\n"

    def test_writes_stay_in_their_sandbox(self, backend: Backend, prepared: Prepared) -> None:
        with backend.open(SPEC, prepared) as first:
            assert first.run(Command(line="echo x > new; rm README; echo y > ~/z; rm /opt/env/bin/tool")).ok
        with backend.open(SPEC, prepared) as second:
            assert second.run(Command(line="ls new ~/z")).exit_code != 0
            assert second.run(Command(line="cat README; tool")).stdout.kept == b"read me\ntool\n"

    def test_tree_shows_changes(self, sandbox: Sandbox, sh: Run) -> None:
        sh("echo new > new.txt; rm README; rm -r keep; chmod +x src/app.py; ln -s /etc/passwd out; mkfifo pipe")
        sandbox.kill_processes()
        entries = {entry.path: entry for entry in sandbox.tree().entries()}
        assert b"README" not in entries
        assert b"keep/file" not in entries
        assert entries[b"new.txt"].sha256 == hashlib.sha256(b"new\n").hexdigest()
        assert entries[b"src/app.py"].executable
        assert entries[b"out"].kind is Kind.SYMLINK
        assert entries[b"pipe"].kind is Kind.SPECIAL
        assert sandbox.tree().read(b"new.txt", max_bytes=100) == b"new\n"

    def test_untouched_tree_equals_the_prepared_one(self, sandbox: Sandbox, prepared: Prepared) -> None:
        assert list(sandbox.tree().entries()) == list(prepared.base_tree.entries())

    @pytest.mark.parametrize(
        "attack",
        [
            "rm -rf /workspace; rm -rf /workspace/* /workspace/.[a-z]*",
            "mv /workspace /tmp/moved",
            "rmdir /workspace; ln -s /etc /workspace",
            "rm -rf /workspace/*; ln -s /etc/passwd README; ln -s / keep",
            "chmod 000 /workspace",
        ],
    )
    def test_workspace_cannot_be_replaced(self, sandbox: Sandbox, sh: Run, attack: str) -> None:
        sh(attack)
        sh("chmod 755 /workspace", cwd="/")
        assert sh("echo still > here && cat here", cwd="/workspace").stdout.kept == b"still\n"
        entries = {entry.path: entry for entry in sandbox.tree().entries()}
        assert b"here" in entries
        assert b"passwd" not in entries

    def test_deleted_working_folder_is_a_result(self, sh: Run) -> None:
        assert sh("rm -rf src").ok
        assert sh("pwd", cwd="/workspace/src").exit_code == 127

    def test_tree_shows_renamed_and_recreated_folders(self, sh: Run, sandbox: Sandbox) -> None:
        assert sh("mv keep kept2 && rm -rf src && mkdir src && echo x > src/only").ok
        paths = {entry.path for entry in sandbox.tree().entries()}
        assert {b"kept2/file", b"src/only"} <= paths
        assert not {b"keep/file", b"src/app.py"} & paths

    def test_mounts_are_read_only(self, backend: Backend, prepared: Prepared, tmp_path: Path) -> None:
        (tmp_path / "files").mkdir()
        (tmp_path / "files/data").write_text("mounted")
        (tmp_path / "single").write_text("single")
        spec = replace(
            SPEC, mounts=(Mount(tmp_path / "files", "/agent/files"), Mount(tmp_path / "single", "/agent/one"))
        )
        with backend.open(spec, prepared) as opened:
            assert opened.run(Command(line="cat /agent/files/data /agent/one")).stdout.kept == b"mountedsingle"
            assert opened.run(Command(line="echo x > /agent/files/data")).exit_code != 0
            assert opened.run(Command(line="touch /agent/files/new")).exit_code != 0
        assert (tmp_path / "files/data").read_text() == "mounted"

    def test_workdir_can_be_another_path(self, backend: Backend, source: Path) -> None:
        with backend.open(replace(SPEC, workdir="/home/agent/project"), None) as opened:
            assert opened.run(Command(line="pwd; touch x; ls")).stdout.kept == b"/home/agent/project\nx\n"

    def test_system_path_as_workdir_is_refused(self, backend: Backend) -> None:
        with pytest.raises(SandboxUnavailable, match="/etc"), backend.open(replace(SPEC, workdir="/etc/app"), None):
            pass


class TestWriteFiles:
    def test_writes_deletes_and_links(self, sandbox: Sandbox, sh: Run) -> None:
        sandbox.write_files(
            [
                FileWrite(b"deep/er/new", b"content\n", executable=True),
                FileWrite(b"README", b"other\n"),
                FileWrite(b"keep/file"),
                FileWrite(b"l2", symlink=b"README"),
            ]
        )
        done = sh("deep/er/../../run.sh; cat deep/er/new l2; ls -d keep; test -x deep/er/new; echo $?")
        assert done.stdout.kept == b"ran\ncontent\nother\n0\n"
        assert b"keep" in done.stderr.kept

    def test_replaces_a_folder_by_a_file_and_back(self, sandbox: Sandbox, sh: Run) -> None:
        sandbox.write_files([FileWrite(b"keep/file"), FileWrite(b"keep", b"now a file\n")])
        assert sh("cat keep").stdout.kept == b"now a file\n"
        sandbox.write_files([FileWrite(b"keep"), FileWrite(b"keep/inner", b"folder again\n")])
        assert sh("cat keep/inner").stdout.kept == b"folder again\n"

    @pytest.mark.parametrize(
        "bad",
        [b"/etc/passwd", b"../x", b"a/../b", b".git/hooks/x", b"sub/.GIT/config", b"", b"a//b", b"nul\0"],
    )
    def test_refuses_paths_outside_the_workspace_or_in_git(self, sandbox: Sandbox, bad: bytes) -> None:
        before = list(sandbox.tree().entries())
        with pytest.raises(PatchInvalid):
            sandbox.write_files([FileWrite(b"fine", b"x"), FileWrite(bad, b"x")])
        assert list(sandbox.tree().entries()) == before

    @pytest.mark.parametrize(
        "prepare,path",
        [
            ("ln -s /tmp out", b"out/x"),
            ("ln -s src alias", b"alias/x"),
            ("true", b"run.sh/below"),
            ("mkdir full; touch full/x", b"full"),
        ],
    )
    def test_writes_nothing_if_one_file_cannot_be_written(
        self, sandbox: Sandbox, sh: Run, prepare: str, path: bytes
    ) -> None:
        sh(prepare)
        before = list(sandbox.tree().entries())
        with pytest.raises(PatchInvalid):
            sandbox.write_files([FileWrite(b"README"), FileWrite(b"new/x", b"x"), FileWrite(path, b"x")])
        assert list(sandbox.tree().entries()) == before
        assert sh("ls -A /tmp").stdout.kept == b""

    def test_final_symlink_is_replaced_not_followed(self, sandbox: Sandbox, sh: Run) -> None:
        sh("echo outside > /tmp/target; ln -sf /tmp/target victim")
        sandbox.write_files([FileWrite(b"victim", b"inside\n")])
        assert sh("cat victim /tmp/target; test -L victim; echo $?").stdout.kept == b"inside\noutside\n1\n"

    def test_full_disk_changes_nothing(self, sandbox: Sandbox) -> None:
        before = list(sandbox.tree().entries())
        with pytest.raises(PatchInvalid, match="space"):
            sandbox.write_files([FileWrite(b"README"), FileWrite(b"big", b"x" * (80 * MIB))])
        assert list(sandbox.tree().entries()) == before

    def test_writes_into_folders_without_permissions(self, sandbox: Sandbox, sh: Run) -> None:
        sh("chmod 000 src keep; chmod 500 .")
        sandbox.write_files([FileWrite(b"src/new", b"x"), FileWrite(b"keep/file", b"y"), FileWrite(b"top", b"z")])
        assert sh("chmod 755 src keep .; cat src/new keep/file top").stdout.kept == b"xyz"


class TestLimitsAndNetwork:
    @pytest.mark.req("R-05", "R-06")
    def test_only_loopback_network_works(self, sh: Run) -> None:
        probe = (
            "import socket, threading\n"
            "s = socket.create_server(('127.0.0.1', 0))\n"
            "threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()\n"
            "print(socket.create_connection(s.getsockname()).recv(2))\n"
            "print([n for _, n in socket.if_nameindex()])\n"
            "for host in ('1.1.1.1', '10.0.0.1', '169.254.169.254'):\n"
            "    try: socket.create_connection((host, 80), 2); print('reached', host)\n"
            "    except OSError as e: print('refused')\n"
        )
        done = sh("python3 -", stdin=probe.encode())
        assert done.stdout.kept == b"b'hi'\n['lo']\nrefused\nrefused\nrefused\n"

    @pytest.mark.req("M-01a")
    def test_usage_is_measured(self, sandbox: Sandbox, sh: Run) -> None:
        sh("head -c 5000000 /dev/zero > file; python3 -c 'sum(range(3000000))'")
        usage = sandbox.usage()
        assert usage.cpu_sec is not None
        assert usage.cpu_sec > 0.01
        assert usage.disk_mb is not None
        assert 4.5 < usage.disk_mb < 6
        assert usage.processes is not None

    @pytest.mark.req("R-06")
    def test_limit_report_names_the_enforcement(self, backend: Backend) -> None:
        report = backend.limits()
        assert {report.cpu, report.memory, report.pids, report.disk} <= {"hard", "monitored", "absent"}
        rootless = any(note.startswith("rootless engine") for note in report.notes)
        assert report.pids == "hard" or rootless
        assert report.disk == {"bwrap": "hard", "docker": "monitored"}[backend.name]
