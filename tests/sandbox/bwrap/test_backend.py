"""The bubblewrap backend: who caused a sandbox's death, the environment of PID 1, copies, and failed starts."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import PatchInvalid, SandboxError, SandboxLost, SandboxUnavailable
from agentbench.policy.host_trouble import host_troubles
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.bwrap.sandbox import BwrapSandbox
from agentbench.sandbox.bwrap.spawn.child import SpawnRequest
from agentbench.sandbox.bwrap.supervisor import SpawnedSandbox
from agentbench.sandbox.protocol import Limits, Prepared, SetupPlan
from agentbench.tree.entry import FileWrite
from tests.sandbox.conftest import SPEC


@pytest.fixture
def sandbox(own_backend: BwrapBackend) -> Iterator[BwrapSandbox]:
    opened = own_backend.start(SPEC, own_backend._environments.without_setup(SPEC))
    yield opened
    opened.close()


def server_pid(sandbox: BwrapSandbox) -> int:
    """Return the host's pid of the sandbox's PID 1: the last of the two processes with the server's command line."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"server.pyc" in (folder / "cmdline").read_bytes() and sandbox.id in (folder / "cgroup").read_text():
                pids.append(int(folder.name))
        except OSError:
            continue
    if not pids:
        pytest.skip("without cgroups, the sandbox's processes cannot be identified")
    return max(pids)


class TestCauseOfDeath:
    def test_server_killed_for_memory_is_a_result(self, sandbox: BwrapSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        os.kill(server_pid(sandbox), signal.SIGKILL)
        monkeypatch.setattr("agentbench.sandbox.bwrap.sandbox.oom_kills", lambda _: 1)
        monkeypatch.setattr("agentbench.sandbox.bwrap.sandbox.megabytes", lambda _: SPEC.limits.memory_mb)
        for _ in range(2):
            done = sandbox.run(Command(line="true"))
            assert (done.exit_code, done.signal, done.oom) == (137, 9, True)
        started = sandbox.start(Command(line="true"))
        started.write(b"x")
        started.close_stdin()
        started.kill()
        assert started.wait().oom
        with pytest.raises(PatchInvalid, match="memory"):
            sandbox.write_files([FileWrite(b"x", b"y")])
        assert sandbox.kill_processes() == 0
        assert list(sandbox.tree().entries()) == []

    def test_memory_kill_below_the_own_limit_is_trouble_of_the_host(
        self, sandbox: BwrapSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.kill(server_pid(sandbox), signal.SIGKILL)
        monkeypatch.setattr("agentbench.sandbox.bwrap.sandbox.oom_kills", lambda _: 1)
        with pytest.raises(SandboxLost) as caught:
            sandbox.run(Command(line="true"))
        assert caught.value.evidence.host_oom_kills == 1
        assert caught.value.evidence.memory_peak_mb is not None
        assert host_troubles(caught.value.evidence) == (
            "the kernel killed its processes because the host was out of memory",
        )


class TestServer:
    def test_contract_variables_do_not_reach_pid_1(self, own_backend: BwrapBackend) -> None:
        spec = replace(SPEC, env={"LD_DEBUG": "libs", "PYTHONHOME": "/nowhere", "MINE": "yes"})
        opened = own_backend.start(spec, own_backend._environments.without_setup(spec))
        try:
            assert opened.run(Command(line="echo $MINE")).stdout.kept == b"yes\n"
            assert opened._spawned.stderr() == ""
        finally:
            opened.close()

    def test_values_that_look_like_bubblewrap_options_stay_values(self, own_backend: BwrapBackend) -> None:
        spec = replace(SPEC, env={"A": "{info}", "B": "{seccomp}", "C": "--bind", "D": ""})
        with own_backend.open(spec, None) as opened:
            assert opened.run(Command(line='echo "$A $B $C [$D]"')).stdout.kept == b"{info} {seccomp} --bind []\n"

    def test_process_limit_does_not_count_the_server(self, own_backend: BwrapBackend) -> None:
        spec = replace(SPEC, limits=Limits(cpus=1, memory_mb=128, pids=5, disk_mb=16))
        with own_backend.open(spec, None) as opened:
            assert opened.run(Command(line="sleep 0.01 & sleep 0.01 & sleep 0.01 & sleep 0.01 & wait")).ok
            assert not opened.run(Command(line="for i in 1 2 3 4 5 6; do sleep 1 & done; wait")).ok

    def test_infinite_timeout_is_allowed(self, sandbox: BwrapSandbox) -> None:
        assert sandbox.run(Command(line="echo x", timeout_sec=float("inf"))).stdout.kept == b"x\n"


class TestCopies:
    """On hosts that refuse overlays, every sandbox starts from a copy; nothing else changes."""

    @pytest.fixture
    def copying(self, state: Path) -> Iterator[BwrapBackend]:
        backend = BwrapBackend(state, writable_layer="copies")
        yield backend
        backend.close()

    def test_results_are_the_same_without_an_overlay(self, copying: BwrapBackend, source: Path) -> None:
        commands = ("echo more >> README; rm -r keep; touch src/app.py", "echo x > ~/y; rm /opt/env/bin/pip3")
        plan = SetupPlan("copies", source, commands, (), 60)
        prepared = copying.prepare(plan, SPEC, on_step=lambda _: None)
        assert prepared.setup_changed == (b"README", b"keep/file")
        with copying.open(SPEC, prepared) as opened:
            line = "cat README ~/y; ls keep /opt/env/bin/pip3; mkdir new; echo n > new/n; rm run.sh; id -u; stat -c %u README"
            assert opened.run(Command(line=line)).stdout.kept == b"read me\nmore\nx\n1000\n1000\n"
            paths = [entry.path for entry in opened.tree().entries()]
            assert paths == [b"README", b"link", b"new/n", b"src/app.py"]
            full = opened.run(Command(line="head -c 200M /dev/zero > fill"))
            assert b"No space left" in full.stderr.kept
            assert not full.oom
        with copying.open(SPEC, prepared) as again:
            assert again.run(Command(line="ls run.sh")).ok

    def test_refused_overlay_falls_back_to_copies(
        self, own_backend: BwrapBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spawn = own_backend._supervisor.spawner.spawn

        def refuse(request: SpawnRequest) -> SpawnedSandbox:
            if not request["copies"]:
                raise SandboxError("the sandbox did not start: mount overlay on /tmp/m: Operation not permitted")
            return spawn(request)

        monkeypatch.setattr(own_backend._supervisor.spawner, "spawn", refuse)
        with own_backend.open(SPEC, None) as opened:
            assert opened.run(Command(line="python -c 'print(1)'")).stdout.kept == b"1\n"
        assert any("overlay mounts are refused" in note for note in own_backend.limits().notes)


class TestFailedStart:
    def test_error_of_bubblewrap_is_quoted_with_a_remedy(self, own_backend: BwrapBackend, tmp_path: Path) -> None:
        fake = tmp_path / "bwrap"
        fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
        fake.chmod(0o755)
        own_backend._program = str(fake)
        with pytest.raises(SandboxUnavailable, match=r"uid map: Permission denied") as caught:
            own_backend.open(SPEC, None).__enter__()
        assert caught.value.remedy

    def test_bubblewrap_outside_of_usr_works(self, own_backend: BwrapBackend, tmp_path: Path) -> None:
        shutil.copy(own_backend._program, tmp_path / "bwrap")
        own_backend._program = str(tmp_path / "bwrap")
        with own_backend.open(SPEC, None) as opened:
            assert opened.run(Command(line="echo up")).stdout.kept == b"up\n"

    def test_missing_mount_source_is_an_error(
        self, own_backend: BwrapBackend, prepared: Prepared, tmp_path: Path
    ) -> None:
        from agentbench.sandbox.protocol import Mount

        spec = replace(SPEC, mounts=(Mount(tmp_path / "absent", "/x"),))
        with pytest.raises(SandboxError, match="no such file or folder"):
            own_backend.open(spec, None).__enter__()
