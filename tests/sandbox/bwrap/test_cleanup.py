"""Sandboxes leave nothing behind: after a normal end, or when the harness or the spawner is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.protocol import Backend, Prepared
from agentbench.sandbox.state import remove_leftovers
from tests.sandbox.conftest import SPEC
from tests.sandbox.host_processes import processes, until

pytestmark = [pytest.mark.req("R-06"), pytest.mark.component]

_HARNESS = """
    import sys, time
    from pathlib import Path
    from agentbench.core.command import Command
    from agentbench.sandbox.protocol import *
    from agentbench.sandbox.registry import open_backend
    backend = open_backend("bwrap", state=Path(sys.argv[1]), needs_image=False)
    with backend.open(SandboxSpec(Phase.AGENT, Limits(memory_mb=256, disk_mb=64)), None) as sandbox:
        running = sandbox.start(Command(line=f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"))
        while sandbox.run(Command(line="pgrep -c sleep")).stdout.kept != b"2\\n": time.sleep(0.01)
        print("up", backend._supervisor.spawner.pid, flush=True)
        time.sleep(600)
"""


def cgroups(name: str) -> list[Path]:
    # `glob` fails when a group of another test is removed meanwhile.
    return [
        Path(base, f"agentbench-{name}")
        for base, names, _ in os.walk("/sys/fs/cgroup")
        if f"agentbench-{name}" in names
    ]


@contextlib.contextmanager
def harness(state: Path, seconds: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start another harness process with a busy sandbox; yield it and its spawner's pid."""
    code = textwrap.dedent(_HARNESS)
    child = subprocess.Popen([sys.executable, "-c", code, str(state), seconds], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        line = child.stdout.readline().split()
        assert line[:1] == [b"up"]
        yield child, int(line[1])
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def owners(state: Path) -> set[str]:
    return {path.name for path in (state / "live").iterdir()}


def test_closing_a_sandbox_ends_everything_in_it(backend: Backend, prepared: Prepared) -> None:
    with backend.open(SPEC, prepared) as sandbox:
        sandbox.start(Command(line="setsid sleep 7001.25 & sleep 7001.25", timeout_sec=60))
        until(lambda: len(processes("sleep 7001.25")) >= 2, "did not start")
    assert processes("sleep 7001.25") == []
    assert processes(sandbox.id) == []


def test_closing_a_backend_leaves_no_folder_cgroup_or_process(own_state: Path) -> None:
    backend = BwrapBackend(own_state)
    (mine,) = owners(own_state)
    with backend.open(SPEC, None) as sandbox:
        sandbox.run(Command(line="true"))
        pid = backend._supervisor.spawner.pid
    backend.close()
    backend.close()
    assert owners(own_state) == set()
    assert cgroups(mine) == []
    assert not Path(f"/proc/{pid}").exists()
    with pytest.raises(SandboxError, match="closed"):
        backend.open(SPEC, None).__enter__()


def test_sandbox_of_a_closed_backend_raises_sandbox_error(own_state: Path) -> None:
    backend = BwrapBackend(own_state)
    context = backend.open(SPEC, None)
    sandbox = context.__enter__()
    backend.close()
    with pytest.raises(SandboxError):
        sandbox.run(Command(line="true"))
    context.__exit__(None, None, None)


def test_killed_harness_leaves_nothing(own_state: Path) -> None:
    with harness(own_state, "7002.5") as (child, _):
        (theirs,) = owners(own_state)
        child.kill()
        until(lambda: not processes("7002.5"), "the sandbox is still alive")
        until(lambda: not processes(str(own_state)), "the spawner is still alive")
        until(lambda: theirs not in owners(own_state), "the owner's folder still exists")
        assert cgroups(theirs) == []


def test_next_harness_cleans_up_after_killed_harness_and_spawner(own_state: Path) -> None:
    with harness(own_state, "7003.5") as (child, spawner):
        (theirs,) = owners(own_state)
        os.kill(spawner, signal.SIGKILL)
        child.kill()
        child.wait()
        until(lambda: not processes("7003.5"), "the sandbox is still alive")
        assert theirs in owners(own_state)

        def cleaned() -> bool:
            # The killed spawner holds its lock until the kernel has ended it.
            BwrapBackend(own_state).close()
            return theirs not in owners(own_state)

        until(cleaned, "the next harness does not clean up")
        assert cgroups(theirs) == []


def test_sandbox_inherits_no_file_of_its_spawner(own_state: Path) -> None:
    backend = BwrapBackend(own_state)
    # A running bubblewrap closes what it inherited, so the files of the spawner itself are examined.
    with backend.open(SPEC, None):
        files = Path(f"/proc/{backend._supervisor.spawner.pid}/fdinfo").iterdir()
        flags = {
            file.name: int(file.read_text().split("flags:")[1].split()[0], 8) for file in files if int(file.name) > 2
        }
    backend.close()
    assert flags
    assert [fd for fd, value in flags.items() if not value & os.O_CLOEXEC] == []


def test_cleanup_leaves_live_owners_alone(own_state: Path) -> None:
    with harness(own_state, "7004.5"):
        (theirs,) = owners(own_state)
        groups = cgroups(theirs)
        BwrapBackend(own_state).close()
        assert remove_leftovers(own_state) == []
        assert theirs in owners(own_state)
        assert cgroups(theirs) == groups
        assert len(processes("sleep 7004.5")) >= 2


def test_backend_survives_the_death_of_its_spawner(own_state: Path) -> None:
    backend = BwrapBackend(own_state)
    context = backend.open(SPEC, None)
    sandbox = context.__enter__()
    os.kill(backend._supervisor.spawner.pid, signal.SIGKILL)
    with pytest.raises(SandboxError):
        sandbox.run(Command(line="sleep 30"))
    context.__exit__(None, None, None)
    with backend.open(SPEC, None) as again:
        assert again.run(Command(line="echo again")).stdout.kept == b"again\n"
    backend.close()


def test_descriptors_do_not_leak(backend: Backend, prepared: Prepared) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    with backend.open(SPEC, prepared) as sandbox:
        sandbox.run(Command(line="true"))
    before = count()
    for _ in range(5):
        with backend.open(SPEC, prepared) as sandbox:
            sandbox.run(Command(line="echo x >&3", side_channel=True))
            with sandbox.tree() as tree:  # type: ignore[attr-defined]
                list(tree.entries())
    assert count() == before
