"""Measure what observing programs costs: a build of many small processes, and the worst case, `/bin/true`.

    python -m bench.exec_log [--sandbox bwrap|docker]

Each command runs in turn in a sandbox that observes it and in one with the plain system call filter. The cost is the median of the
ratios of neighbouring turns, so other load affects both sides alike. Processor time includes that of the command server.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentbench.core.command import Command
from agentbench.sandbox.protocol import Backend, Limits, Phase, ProcessEnd, ProcessStart, Sandbox, SandboxSpec
from bench.report import Report, argument_parser, available_backend, available_backends, open_report

SPEC = SandboxSpec(Phase.AGENT, Limits(cpus=2, memory_mb=512, pids=64, disk_mb=256))
UNITS = 100
BUILD = f"""
set -e
rm -rf out && mkdir out
seq 1 400 | sed 's/.*/def function_&(value): return [value + & for _ in range(value)]/' > module.py
i=0
while [ $i -lt {UNITS} ]; do
    sed "s/function/function_$i/" module.py > out/$i.py
    python3 -S -c 'import sys; compile(open(sys.argv[1]).read(), "x", "exec")' out/$i.py
    sha256sum out/$i.py > out/$i.sum
    cp out/$i.sum out/$i.copy
    grep -c function out/$i.py > out/$i.count
    i=$((i+1))
done
"""
TRUES = 1000
WORST = f"i=0; while [ $i -lt {TRUES} ]; do /bin/true; i=$((i+1)); done"
ROUNDS = 9
MOST_PERCENT = 10.0
FORCED = "AB_TEST_OBSERVATION_PROBLEM"


@dataclass(frozen=True, slots=True)
class Cost:
    wall_sec: float
    cpu_sec: float | None
    programs: int


@contextmanager
def plain(backend: Backend) -> Iterator[Sandbox]:
    """Open a sandbox that observes nothing, as on a host that cannot."""
    os.environ[FORCED] = "measured without"
    try:
        opening = backend.open(SPEC, None)
        with opening as sandbox:
            del os.environ[FORCED]
            yield sandbox
    finally:
        os.environ.pop(FORCED, None)


def ignore(_: ProcessStart | ProcessEnd) -> None:
    """Writing events is measured by bench.trace."""


def cost(sandbox: Sandbox, line: str) -> Cost:
    before = sandbox.usage().cpu_sec
    started = time.perf_counter()
    done = sandbox.run(Command(line=line, timeout_sec=600), observe=ignore)
    wall_sec = time.perf_counter() - started
    after = sandbox.usage().cpu_sec
    if not done.ok:
        raise SystemExit(f"the build failed: {done.stderr.text[-500:]}")
    cpu_sec = after - before if after is not None and before is not None else None
    return Cost(wall_sec, cpu_sec, done.processes.started if done.processes else 0)


def compare(label: str, line: str, pair: tuple[Sandbox, Sandbox], report: Report, backend: str) -> None:
    observed, unobserved = pair
    turns = [(cost(observed, line), cost(unobserved, line)) for _ in range(ROUNDS)]
    goal = MOST_PERCENT if line == BUILD else None
    programs = turns[0][0].programs
    report.value(f"{label}: programs", programs, "programs", backend=backend)
    percent = statistics.median((seen.wall_sec / unseen.wall_sec - 1) * 100 for seen, unseen in turns)
    report.value(f"{label}: wall clock added", percent, "%", backend=backend, most=goal)
    processor = [(seen.cpu_sec, unseen.cpu_sec) for seen, unseen in turns if seen.cpu_sec and unseen.cpu_sec]
    if processor:
        percent = statistics.median((seen / unseen - 1) * 100 for seen, unseen in processor)
        report.value(f"{label}: processor time added", percent, "%", backend=backend, most=goal)
        each = statistics.median((seen - unseen) * 1000 / programs for seen, unseen in processor)
        report.value(f"{label}: processor time added per program", each, "ms", backend=backend)


def measure(name: str, report: Report) -> None:
    with available_backend(name, report) as backend:
        if backend is None:
            return
        with backend.open(SPEC, None) as observed, plain(backend) as unobserved:
            if observed.observation_problem is not None:
                report.note(f"programs cannot be observed: {observed.observation_problem}", backend=name)
                return
            compare("build of 500 small processes", BUILD, (observed, unobserved), report, name)
            compare(f"{TRUES} times /bin/true", WORST, (observed, unobserved), report, name)


def main() -> None:
    arguments = argument_parser(__doc__, sandbox=True).parse_args()
    with open_report("exec_log", arguments.json) as report:
        for name in available_backends(arguments.sandbox, report):
            measure(name, report)


if __name__ == "__main__":
    main()
