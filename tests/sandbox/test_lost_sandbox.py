"""Lost sandboxes: which ends are trouble of the host, and which are the doing of what ran inside."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SandboxLost
from agentbench.policy.host_trouble import host_troubles
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.sandbox import DockerSandbox
from agentbench.sandbox.protocol import Backend, Sandbox
from tests.sandbox.conftest import SPEC, require_docker

pytestmark = [pytest.mark.req("R-06"), pytest.mark.component]

BACKENDS = ["bwrap", "docker"]


def pid_1(sandbox: Sandbox) -> int:
    """Return the host's pid of the sandbox's command server."""
    if isinstance(sandbox, DockerSandbox):
        pid = sandbox._container.pid
        return pid or pytest.skip("the container's processes are not visible")
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"server.pyc" in (folder / "cmdline").read_bytes() and sandbox.id in (folder / "cgroup").read_text():
                pids.append(int(folder.name))
        except OSError:
            continue
    return max(pids) if pids else pytest.skip("without cgroups, the sandbox's processes cannot be identified")


def loss(sandbox: Sandbox, command: Command | None = None) -> SandboxLost:
    with pytest.raises(SandboxLost) as caught:
        sandbox.run(command or Command(line="true"))
    return caught.value


def shorten_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits that end without a result in these tests."""
    monkeypatch.setattr("agentbench.sandbox.command_channel._ANSWER_MARGIN_SEC", 0.5)
    monkeypatch.setattr("agentbench.sandbox.command_channel._OVERDUE_SEC", 0.5)
    for backend in ("bwrap", "docker"):
        monkeypatch.setattr(f"agentbench.sandbox.{backend}.sandbox._EXIT_SEC", 0.5)


def test_dead_server_is_blamed_on_what_ran_inside(backend: Backend) -> None:
    """Only the host's evidence excuses: a PID 1 that simply died is what a successful attack looks like."""
    with backend.open(SPEC, None) as sandbox:
        os.kill(pid_1(sandbox), signal.SIGKILL)
        lost = loss(sandbox)
        assert host_troubles(lost.evidence) == ()
        assert lost.sandbox == sandbox.id
        assert "was lost: it ended with" in lost.message
        assert lost.evidence.memory_available_mb
        assert lost.evidence.disk_free_mb
        # A container can hide what it wrote on the host's disk, so a full disk never excuses it.
        assert (lost.evidence.disk_written_mb is None) == isinstance(sandbox, DockerSandbox)
        for request in (sandbox.kill_processes, lambda: sandbox.write_files([])):
            with pytest.raises(SandboxLost):
                request()


def test_stopped_server_is_blamed_on_what_ran_inside(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_waits(monkeypatch)
    with backend.open(SPEC, None) as sandbox:
        os.kill(pid_1(sandbox), signal.SIGSTOP)
        lost = loss(sandbox, Command(line="true", timeout_sec=0.1))
        assert "does not answer" in lost.message
        assert host_troubles(lost.evidence) == ()
        # Later requests fail at once, with the evidence of the first.
        again = loss(sandbox, Command(line="true", timeout_sec=600))
        assert (again.message, again.evidence) == (lost.message, lost.evidence)


@pytest.mark.parametrize("share", [0.25, 1.0], ids=["below-its-limit", "at-its-limit"])
def test_a_process_killed_for_memory_is_the_hosts_doing_only_below_the_limit(
    backend: Backend, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The command server survives, because the kernel kills the largest process."""
    with backend.open(SPEC, None) as sandbox:
        monkeypatch.setattr(type(sandbox), "_kernel_oom_kills", lambda _: 1)
        monkeypatch.setattr(type(sandbox), "_memory_peak_mb", lambda _: int(SPEC.limits.memory_mb * share))
        if share == 1.0:
            assert sandbox.run(Command(line="true")).oom
            return
        lost = loss(sandbox)
        assert "killed a process of it for memory" in lost.message
        assert host_troubles(lost.evidence) == ("the kernel killed its processes because the host was out of memory",)
        assert loss(sandbox).evidence == lost.evidence


def test_closed_sandbox_is_not_lost(backend: Backend) -> None:
    with backend.open(SPEC, None) as sandbox:
        pass
    with pytest.raises(SandboxError, match="is closed") as caught:
        sandbox.run(Command(line="true"))
    assert not isinstance(caught.value, SandboxLost)


class TestBubblewrap:
    def test_killed_spawner_is_trouble_of_the_host(self, own_backend: BwrapBackend) -> None:
        with own_backend.open(SPEC, None) as sandbox:
            os.kill(own_backend._supervisor.spawner.pid, signal.SIGKILL)
            evidence = loss(sandbox, Command(line="sleep 60")).evidence
        assert evidence.manager == "gone"
        assert host_troubles(evidence)

    def test_stopped_spawner_is_trouble_of_the_host(
        self, own_backend: BwrapBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shorten_waits(monkeypatch)
        spawner = own_backend._supervisor.spawner.pid
        with own_backend.open(SPEC, None) as sandbox:
            os.kill(spawner, signal.SIGSTOP)
            try:
                os.kill(pid_1(sandbox), signal.SIGKILL)
                evidence = loss(sandbox).evidence
            finally:
                os.kill(spawner, signal.SIGCONT)
        assert evidence.manager == "stopped"
        assert host_troubles(evidence)

    def test_killed_outer_process_is_trouble_of_the_host(self, own_backend: BwrapBackend) -> None:
        with own_backend.open(SPEC, None) as sandbox:
            outer = int(Path(f"/proc/{pid_1(sandbox)}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(outer, signal.SIGKILL)
            # The kernel ends PID 1 a moment after the outer process, so a short command could still succeed.
            evidence = loss(sandbox, Command(line="sleep 60")).evidence
        assert evidence.ended_from_outside
        assert host_troubles(evidence)

    def test_closed_backend_is_trouble_of_the_host(self, state: Path) -> None:
        """An interrupted run closes the backend while its sandboxes work."""
        backend = BwrapBackend(state)
        context = backend.open(SPEC, None)
        sandbox = context.__enter__()
        running = sandbox.start(Command(line="sleep 60"))
        backend.close()
        with pytest.raises(SandboxLost) as caught:
            running.wait()
        assert host_troubles(caught.value.evidence)
        context.__exit__(None, None, None)


class TestDocker:
    @pytest.fixture
    def docker(self, state: Path) -> Iterator[DockerBackend]:
        require_docker()
        backend = DockerBackend(state)
        yield backend
        backend.close()

    @pytest.mark.parametrize("verb", ["kill", "stop --time 0", "rm --force"])
    def test_container_ended_through_the_engine_is_trouble_of_the_host(self, docker: DockerBackend, verb: str) -> None:
        with docker.open(SPEC, None) as sandbox:
            docker._engine.output(*verb.split(), sandbox.id)
            evidence = loss(sandbox).evidence
        assert evidence.ended_from_outside
        assert host_troubles(evidence)

    def test_container_paused_through_the_engine_is_trouble_of_the_host(
        self, docker: DockerBackend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shorten_waits(monkeypatch)
        with docker.open(SPEC, None) as sandbox:
            docker._engine.output("pause", sandbox.id)
            try:
                evidence = loss(sandbox, Command(line="true", timeout_sec=0.1)).evidence
            finally:
                docker._engine.output("unpause", sandbox.id)
        assert evidence.ended_from_outside
