"""Measure the cost of starting a sandbox, running a command and reading, on each available backend.

    python -m bench.sandbox [--sandbox bwrap|docker]

Starts are measured with an empty environment and with one of 200 MB in 10,000 files, the size of many installed packages.
Calls here are those of the sandbox alone; bench.calls measures the tool calls of an agent.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from agentbench.core.command import Command
from agentbench.sandbox.protocol import Backend, Limits, Phase, Prepared, SandboxSpec, SetupPlan
from bench.report import Report, argument_parser, available_backend, available_backends, milliseconds, open_report

LIMITS = Limits(cpus=2, memory_mb=256, pids=64, disk_mb=256)
SPEC = SandboxSpec(Phase.AGENT, LIMITS)
MANY_FILES = (
    "import os, pathlib\n"
    "top = pathlib.Path('/opt/env/lib/many')\n"
    "for folder in range(100):\n"
    "    (top / str(folder)).mkdir(parents=True)\n"
    "    for file in range(100): (top / str(folder) / f'{file}.py').write_bytes(os.urandom(20_000))\n"
)
STARTS = 20
CALLS = 300
START_MS = {"bwrap": 300.0, "docker": 600.0}
DISK_MB = 5


def starts(backend: Backend, prepared: Prepared) -> tuple[list[float], list[float]]:
    """Return the times to start a sandbox until it accepts a command, and to close it."""
    started, closed = [], []
    for _ in range(STARTS):
        opening = backend.open(SPEC, prepared)
        started.append(milliseconds(opening.__enter__))
        closed.append(milliseconds(lambda opening=opening: opening.__exit__(None, None, None)))  # type: ignore[misc]
    return started, closed


def measure(name: str, folder: Path, report: Report) -> None:
    with available_backend(name, report) as backend:
        if backend is None:
            return
        small = backend.prepare(
            SetupPlan("bench-small", folder, (), (), 60), SandboxSpec(Phase.SETUP, LIMITS), on_step=lambda _: None
        )
        large = backend.prepare(
            SetupPlan("bench-large", folder, (f"python3 - <<'END'\n{MANY_FILES}\nEND",), (), 300),
            SandboxSpec(Phase.SETUP, Limits(memory_mb=1024, disk_mb=1024)),
            on_step=lambda _: None,
        )
        for label, prepared, goal in (
            ("nothing prepared", small, None),
            ("200 MB of dependencies", large, {"p50": START_MS[name]}),
        ):
            started, closed = starts(backend, prepared)
            report.times(f"start, {label}", started, backend=name, goals=goal)
            report.times(f"close, {label}", closed, backend=name)
        inside(name, backend, large, report)


def inside(name: str, backend: Backend, prepared: Prepared, report: Report) -> None:
    with backend.open(SPEC, prepared) as box:
        used = box.usage().disk_mb
        if used is None:
            report.note("how much disk a sandbox uses cannot be measured here", backend=name)
        else:
            report.value("disk added before anything is written", used, "MB", backend=name, most=DISK_MB)
        true, megabyte = Command(line="true"), Command(line="head -c 1000000 /dev/zero")
        report.times("`true`", [milliseconds(lambda: box.run(true)) for _ in range(CALLS)], backend=name)
        report.times("1 MB of output", [milliseconds(lambda: box.run(megabyte)) for _ in range(30)], backend=name)
        listings = [milliseconds(lambda: list(box.tree().entries())) for _ in range(30)]
        report.times("listing the workspace", listings, backend=name)


def main() -> None:
    arguments = argument_parser(__doc__, sandbox=True).parse_args()
    with open_report("sandbox", arguments.json) as report, tempfile.TemporaryDirectory(prefix="ab-bench-") as directory:
        (Path(directory) / "file").write_text("x\n", encoding="utf-8")
        for name in available_backends(arguments.sandbox, report):
            measure(name, Path(directory), report)


if __name__ == "__main__":
    main()
