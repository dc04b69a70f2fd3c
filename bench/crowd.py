"""Open fifty sandboxes at once; measure their memory and the cleanup after their harness was killed.

    python -m bench.crowd [--sandbox bwrap|docker] [--count N]

The harness runs in its own process with its own state folder, so that other sandboxes are not counted. Memory is the
proportional set size of all processes of a sandbox: the launcher, bubblewrap and the command server, or the engine's shim
and all processes of the container.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agentbench.core.command import Command
from agentbench.sandbox.docker.engine import find_engine
from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import default_state
from bench.report import Report, argument_parser, available_backends, open_report
from tests.sandbox.conftest import remove_images
from tests.sandbox.test_two_harnesses import Traces

COUNT = 50
EACH_MB = 10
SPEC = SandboxSpec(Phase.AGENT, Limits(memory_mb=128, pids=32, disk_mb=32))
TIMEOUT_SEC = 60


def hold(name: str, count: int) -> None:
    """Act as the harness: open the sandboxes, print `ready`, and wait to be killed."""
    backend = open_backend(name, state=default_state(), needs_image=False)
    with backend.open(SPEC, None):
        print("warm", flush=True)  # the one-time work for a new state folder is done
    with ExitStack() as stack:
        for _ in range(count):
            box = stack.enter_context(backend.open(SPEC, None))
            box.run(Command(line="true"))
            box.start(Command(line="sleep 3600", timeout_sec=3600))
        print("ready", flush=True)
        time.sleep(3600)


@contextmanager
def harness(name: str, count: int, state: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-m", "bench.crowd", "--sandbox", name, "--count", str(count), "--hold"]
    env = {**os.environ, "AB_STATE": str(state)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()


def expect_line(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None  # noqa: S101
    if child.stdout.readline() != f"{word}\n":
        sys.exit("the harness did not open its sandboxes")


def parent_pids() -> dict[int, int]:
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # The name in parentheses may contain any character.
            parents[int(folder.name)] = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return parents


def with_descendants(roots: set[int]) -> set[int]:
    """Return these processes and all their descendants."""
    parents, tree = parent_pids(), set(roots)
    while children := {pid for pid, parent in parents.items() if parent in tree and pid not in tree}:
        tree |= children
    return tree


def own_processes(name: str, pid: int, state: Path) -> set[int]:
    if name == "bwrap":
        # One spawner serves all sandboxes and belongs to none of them.
        spawners = {child for child, parent in parent_pids().items() if parent == pid}
        return with_descendants(spawners) - spawners
    marks = Traces(name, state)._names  # noqa: SLF001 - the containers of this state folder
    shims = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            if "containerd-shim" in words and any(mark in words for mark in marks):
                shims.add(int(folder.name))
    return with_descendants(shims)


def proportional_mb(pids: set[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total / 1024


def measure(name: str, count: int, report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="ab-crowd-") as directory:
        state = Path(directory)
        with harness(name, count, state) as child:
            expect_line(child, "warm")
            start = time.perf_counter()
            expect_line(child, "ready")
            report.value(
                f"{count} sandboxes opened one after the other", time.perf_counter() - start, "s", backend=name
            )
            own = own_processes(name, child.pid, state)
            report.value("memory of each (PSS)", proportional_mb(own) / count, "MB", backend=name, most=EACH_MB)
            report.value("processes of each", len(own) / count, "processes", backend=name)
            traces = Traces(name, state)
            child.kill()
            child.wait()
        start = time.perf_counter()
        open_backend(name, state=state, needs_image=False).close()
        left = alive = 1
        while (left or alive) and time.perf_counter() - start < TIMEOUT_SEC:
            left, alive = len(traces.left()), sum(Path(f"/proc/{pid}").exists() for pid in own)
            time.sleep(0.02)
        report.value("gone after kill -9 and a new start", time.perf_counter() - start, "s", backend=name)
        report.value("processes left", alive, "processes", backend=name, most=0)
        report.value("mounts, cgroups, containers, layers left", left, "traces", backend=name, most=0)
        report.value("folders left", len(list((state / "live").iterdir())), "folders", backend=name, most=0)
        if name == "docker":
            remove_images(find_engine(), state)


def main() -> None:
    options = argument_parser(__doc__, sandbox=True)
    options.add_argument("--count", type=int, default=COUNT, help="sandboxes at once (%(default)s)")
    options.add_argument("--hold", action="store_true", help="act as the harness that is killed")
    arguments = options.parse_args()
    if arguments.hold:
        hold(arguments.sandbox[0], arguments.count)
        return
    with open_report("crowd", arguments.json) as report:
        for name in available_backends(arguments.sandbox, report):
            measure(name, arguments.count, report)


if __name__ == "__main__":
    main()
