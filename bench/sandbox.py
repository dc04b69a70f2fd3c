"""What a sandbox costs, on each backend that can be used here: to start, to run a command, to exist.

python -m bench.sandbox [bwrap|docker …]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from agentbench.core.command import Command
from agentbench.core.errors import SandboxUnavailable
from agentbench.sandbox.protocol import Backend, Limits, Phase, Prepared, SandboxSpec, SetupPlan
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.state import default_state
from bench.conditions import conditions

LIMITS = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=256)
SPEC = SandboxSpec(Phase.AGENT, LIMITS)
# 200 MB in 10,000 files, as an environment with many packages has them.
MANY_FILES = (
    "import os, pathlib\n"
    "top = pathlib.Path('/opt/env/lib/many')\n"
    "for folder in range(100):\n"
    "    (top / str(folder)).mkdir(parents=True)\n"
    "    for file in range(100): (top / str(folder) / f'{file}.py').write_bytes(os.urandom(20_000))\n"
)
STARTS = 20
CALLS = 300
AT_ONCE = 50
PROCESSES = (b"server.pyc", b"bwrap", b"containerd-shim")


def told(milliseconds: list[float]) -> str:
    ranked = sorted(milliseconds)
    p99 = ranked[min(len(ranked) - 1, int(len(ranked) * 0.99))]
    return f"p50 {statistics.median(ranked):.1f} ms, p99 {p99:.1f} ms, least {ranked[0]:.1f} ms ({len(ranked)} times)"


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def starts(backend: Backend, prepared: Prepared) -> tuple[list[float], list[float]]:
    """Until the first command can be given, and until it is closed again."""
    opened, closed = [], []
    for _ in range(STARTS):
        opening = backend.open(SPEC, prepared)
        opened.append(timed(opening.__enter__))
        closed.append(timed(lambda opening=opening: opening.__exit__(None, None, None)))  # type: ignore[misc]
    return opened, closed


def proportional_mb() -> dict[int, float]:
    """PSS of every process on this machine that a sandbox may consist of, by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if not any(mark in command for mark in PROCESSES):
                continue
            text = (folder / "smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        lines = [line for line in text.splitlines() if line.startswith("Pss:")]
        if lines:
            found[int(folder.name)] = int(lines[0].split()[1]) / 1024
    return found


def at_once(backend: Backend, prepared: Prepared) -> str:
    """Memory of many sandboxes that live at the same time: their own processes, the engine's helpers for them included."""
    before = set(proportional_mb())
    with ExitStack() as stack:
        for _ in range(AT_ONCE):
            stack.enter_context(backend.open(SPEC, prepared)).run(Command(line="true"))
        new = {pid: size for pid, size in proportional_mb().items() if pid not in before}
    return f"{sum(new.values()) / AT_ONCE:.1f} MB each (PSS), {len(new) / AT_ONCE:.1f} processes each"


def measure(name: str, folder: Path) -> None:
    try:
        backend = open_backend(name, state=default_state(), needs_image=False)
        backend.check(SPEC)
    except SandboxUnavailable as error:
        print(f"{name}: cannot be used here: {error.message} ({error.remedy})")
        return
    try:
        small = backend.prepare(
            SetupPlan("bench-small", folder, (), (), 60), SandboxSpec(Phase.SETUP, LIMITS), on_step=lambda _: None
        )
        large = backend.prepare(
            SetupPlan("bench-large", folder, (f"python3 - <<'END'\n{MANY_FILES}\nEND",), (), 300),
            SandboxSpec(Phase.SETUP, Limits(memory_mb=1024, disk_mb=1024)),
            on_step=lambda _: None,
        )
        for label, prepared in (("small", small), ("200 MB of dependencies", large)):
            opened, closed = starts(backend, prepared)
            print(f"{name}: start, {label}: {told(opened)}")
            print(f"{name}: close, {label}: {told(closed)}")
        with backend.open(SPEC, large) as box:
            used = box.usage().disk_mb
            print(f"{name}: disk used before anything is written: {used if used is None else round(used, 2)} MB")
            calls = [timed(lambda: box.run(Command(line="true"))) for _ in range(CALLS)]
            print(f"{name}: `true`: {told(calls)}")
            megabyte = Command(line="head -c 1000000 /dev/zero")
            print(f"{name}: 1 MB of output: {told([timed(lambda: box.run(megabyte)) for _ in range(30)])}")
            print(
                f"{name}: listing the workspace: {told([timed(lambda: list(box.tree().entries())) for _ in range(30)])}"
            )
        print(f"{name}: {AT_ONCE} at once: {at_once(backend, small)}")
    finally:
        backend.close()


def main() -> None:
    print(f"conditions: {conditions()}")
    with tempfile.TemporaryDirectory(prefix="ab-bench-") as name:
        (Path(name) / "file").write_text("x\n", encoding="utf-8")
        for backend in sys.argv[1:] or ["bwrap", "docker"]:
            measure(backend, Path(name))


if __name__ == "__main__":
    main()
