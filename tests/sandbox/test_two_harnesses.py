"""Several harness processes on one state folder: at the same time, and one after another that was killed.

AB_CROWD sets how many sandboxes the killed harness has open (default 6; use 50 for a thorough test).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbench.sandbox.docker import labels, unused_images
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.protocol import Backend
from agentbench.sandbox.registry import open_backend
from tests.sandbox.host_processes import processes, until

pytestmark = pytest.mark.component

BACKENDS = ["bwrap", "docker"]
CROWD = int(os.environ.get("AB_CROWD", "6"))

_COMMON = """
import contextlib, json, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from agentbench.core.command import Command
from agentbench.sandbox.protocol import *
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import remove_leftovers
name, state, source, word = sys.argv[1:5]
limits = Limits(memory_mb=128, pids=32, disk_mb=32)
backend = open_backend(name, state=Path(state), needs_image=False)
"""
_PREPARE = """
steps = []
plan = SetupPlan("raced", Path(source), ("sleep 0.5; date +%s.%N > stamp; echo $$ >> stamp",), (), 60)
sys.stdin.readline()
prepared = backend.prepare(plan, SandboxSpec(Phase.SETUP, limits), on_step=steps.append)
with backend.open(SandboxSpec(Phase.AGENT, limits), prepared) as sandbox:
    stamp = sandbox.run(Command(line="cat stamp")).stdout.kept.decode()
print(json.dumps([prepared.cached, len(steps), prepared.digest, stamp]), flush=True)
backend.close()
"""
_CROWD = """
def open_one(_):
    sandbox = stack.enter_context(backend.open(SandboxSpec(Phase.AGENT, limits), None))
    sandbox.start(Command(line=f"setsid sleep {word} & echo x > file; sleep {word}", timeout_sec=600))
    return sandbox.id
stack = contextlib.ExitStack()
with ThreadPoolExecutor(4) as pool:
    ids = list(pool.map(open_one, range(int(sys.argv[5]))))
print(json.dumps(ids), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def harness(code: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", _COMMON + code, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def read_answer(child: subprocess.Popen[bytes]) -> list[object]:
    assert child.stdout is not None
    answer: list[object] = json.loads(child.stdout.readline() or b"null")
    return answer


@pytest.mark.req("R-08", "C-05")
def test_concurrent_harnesses_build_an_environment_once(backend: Backend, own_state: Path, source: Path) -> None:
    arguments = (backend.name, str(own_state), str(source), "")
    with harness(_PREPARE, *arguments) as first, harness(_PREPARE, *arguments) as second:
        for child in (first, second):
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
        answers = [read_answer(first), read_answer(second)]
        assert [first.wait(), second.wait()] == [0, 0]
    assert sorted(answer[:2] for answer in answers) == [[False, 1], [True, 0]]
    assert answers[0][2:] == answers[1][2:]
    if backend.name == "docker":
        images = [image for image in unused_images.images_of(find_engine(), own_state) if image.kind == "prepared"]
        assert len(images) == 1


@pytest.mark.req("R-06")
def test_next_start_cleans_up_after_a_killed_harness(backend: Backend, own_state: Path, source: Path) -> None:
    word = f"7{os.getpid()}.25"
    with harness(_CROWD, backend.name, str(own_state), str(source), word, str(CROWD)) as child:
        ids = [str(name) for name in read_answer(child)]
        assert len(ids) == CROWD
        until(lambda: len(processes(f"sleep {word}")) >= 2 * CROWD, "sandboxes did not start")
        traces = Traces(backend.name, own_state)
        if backend.limits().memory == "hard":
            assert len(traces.cgroups()) >= CROWD
        child.kill()
        child.wait()
    open_backend(backend.name, state=own_state, needs_image=False).close()
    until(lambda: not processes(word), "a process is still alive")
    until(lambda: not traces.left(), lambda: f"left: {traces.left()}")
    assert list((own_state / "live").iterdir()) == []


class Traces:
    """Finds what the sandboxes of one state folder leave on the machine. Created while they live, asked afterwards."""

    def __init__(self, kind: str, state: Path) -> None:
        self._state = state
        self._engine = find_engine() if kind == "docker" else None
        self._names = [path.name for path in (state / "live").iterdir()]
        self._layers: list[str] = []
        if self._engine is not None:
            self._names = self._containers()
            self._layers = [self._layer(name) for name in self._names]

    def cgroups(self) -> list[str]:
        folders = [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if any(name in folder for name in self._names)]
        return [folder for folder in folders if "memory" in folder] or folders

    def left(self) -> list[str]:
        left = self.cgroups() + [line for name in self._names for line in processes(name)]
        mounts = Path("/proc/self/mounts").read_text()
        left += [word for word in (str(self._state), *self._layers) if word in mounts]
        if self._engine is not None:
            left += self._containers()
            left += [layer for layer in self._layers if Path(layer).exists()]
        return left

    def _containers(self) -> list[str]:
        assert self._engine is not None
        mark = f"label={labels.STATE}={labels.state_hash(self._state)}"
        return self._engine.output("ps", "--all", "--quiet", "--no-trunc", "--filter", mark).split()

    def _layer(self, name: str) -> str:
        """Return the host folder of a container's writable layer."""
        assert self._engine is not None
        upper = self._engine.output("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", name)
        assert upper.startswith("/")
        return str(Path(upper).parent)
