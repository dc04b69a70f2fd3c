"""Several harnesses, each a process of its own: on one cache at the same time, and one after another that was killed.

AB_CROWD says how many sandboxes the killed one has open (6 without it, 50 for the real thing).
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentbench.sandbox.docker import labels, unused_images
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.protocol import Backend
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import remove_leftovers

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
with backend.open(SandboxSpec(Phase.AGENT, limits), prepared) as box:
    stamp = box.run(Command(line="cat stamp")).stdout.kept.decode()
print(json.dumps([prepared.cached, len(steps), prepared.digest, stamp]), flush=True)
backend.close()
"""
_CROWD = """
def one(_):
    box = stack.enter_context(backend.open(SandboxSpec(Phase.AGENT, limits), None))
    box.start(Command(line=f"setsid sleep {word} & echo x > file; sleep {word}", timeout_sec=600))
    return box.id
stack = contextlib.ExitStack()
with ThreadPoolExecutor(4) as pool:
    ids = list(pool.map(one, range(int(sys.argv[5]))))
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


def told(child: subprocess.Popen[bytes]) -> list[object]:
    assert child.stdout is not None
    answer: list[object] = json.loads(child.stdout.readline() or b"null")
    return answer


@pytest.mark.req("R-08", "C-05")
def test_two_processes_prepare_the_same_at_once_one_builds_and_both_use_it(
    backend: Backend, own: Path, source: Path
) -> None:
    arguments = (backend.name, str(own), str(source), "")
    with harness(_PREPARE, *arguments) as one, harness(_PREPARE, *arguments) as two:
        for child in (one, two):
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
        answers = [told(one), told(two)]
        assert [one.wait(), two.wait()] == [0, 0]
    assert sorted(answer[:2] for answer in answers) == [[False, 1], [True, 0]]
    assert answers[0][2:] == answers[1][2:]
    if backend.name == "docker":
        images = [image for image in unused_images.images_of(find_engine(), own) if image.kind == "prepared"]
        assert len(images) == 1


@pytest.mark.req("R-06")
@pytest.mark.timeout(400)
def test_killed_harness_with_a_crowd_leaves_nothing_after_the_next_start(
    backend: Backend, own: Path, source: Path
) -> None:
    word = f"7{os.getpid()}.25"
    with harness(_CROWD, backend.name, str(own), str(source), word, str(CROWD)) as child:
        ids = [str(name) for name in told(child)]
        assert len(ids) == CROWD
        until(lambda: len(processes(f"sleep\0{word}")) >= 2 * CROWD, "they did not start")
        traces = Traces(backend.name, own)
        if backend.limits().memory == "hard":
            assert len(traces.cgroups()) >= CROWD
        child.kill()
        child.wait()
    open_backend(backend.name, state=own, needs_image=False).close()
    until(lambda: not processes(word), "a process lives")
    until(lambda: not traces.left(), lambda: f"left: {traces.left()}")
    assert list((own / "live").iterdir()) == []


class Traces:
    """What sandboxes of one state folder leave on the machine, found while they live and looked for afterwards."""

    def __init__(self, kind: str, state: Path) -> None:
        self._state = state
        self._engine = find_engine() if kind == "docker" else None
        self._names = [path.name for path in (state / "live").iterdir()]
        self._layers: list[str] = []
        if self._engine is not None:
            self._names = self._containers()
            self._layers = [self._layer(name) for name in self._names]

    def cgroups(self) -> list[str]:
        found = [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if any(name in folder for name in self._names)]
        return [folder for folder in found if "memory" in folder] or found

    def left(self) -> list[str]:
        found = self.cgroups() + [line for name in self._names for line in processes(name)]
        mounts = Path("/proc/self/mounts").read_text()
        found += [word for word in (str(self._state), *self._layers) if word in mounts]
        if self._engine is not None:
            found += self._containers()
            found += [layer for layer in self._layers if Path(layer).exists()]
        return found

    def _containers(self) -> list[str]:
        assert self._engine is not None
        mark = f"label={labels.STATE}={labels.state_hash(self._state)}"
        return self._engine.output("ps", "--all", "--quiet", "--no-trunc", "--filter", mark).split()

    def _layer(self, name: str) -> str:
        """The folder of a container's writable layer on the host."""
        assert self._engine is not None
        upper = self._engine.output("inspect", "--format", "{{.GraphDriver.Data.UpperDir}}", name)
        assert upper.startswith("/")
        return str(Path(upper).parent)


def processes(marker: str) -> list[str]:
    """Command lines on the host that hold `marker`; zombies have none."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
            if marker in line and int(folder.name) != os.getpid():
                found.append(line)
    return found


def until(condition: Callable[[], bool], what: str | Callable[[], str]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, what if isinstance(what, str) else what()
        time.sleep(0.05)


@pytest.mark.req("R-08")
def test_an_owner_that_is_only_coming_to_be_is_nobodys_leftover(tmp_path: Path) -> None:
    coming, left = tmp_path / "live" / ".coming", tmp_path / "live" / ".left"
    for folder in (coming, left):
        folder.mkdir(parents=True)
        (folder / "lock").touch()
    long_ago = coming.stat().st_mtime - 3600
    os.utime(left, (long_ago, long_ago))
    assert remove_leftovers(tmp_path) == [".left"]
    assert coming.is_dir()
