"""Compares the CPU seconds of one run under the pinned runner with plain pytest of the same tests, on references.

.venv/bin/python -m tests.campaigns.runner_cost src/agentbench/demo/duration-compound
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from agentbench.acceptance.candidate import Candidate
from agentbench.acceptance.checks.pytest.base_survey import configuration_file
from agentbench.acceptance.checks.pytest.check import PytestCheck, SelectedTests
from agentbench.acceptance.checks.pytest.run import run_pytest
from agentbench.acceptance.checks.pytest.runner_bundle import unpacked_bundle
from agentbench.acceptance.checks.pytest.time_limit import TimeLimit
from agentbench.acceptance.grade import protection_of
from agentbench.acceptance.replica import ENV, base_entries
from agentbench.contract.load import LoadedTask, load_task
from agentbench.contract.pytest_command import PytestCommand, parse_pytest_command
from agentbench.core.command import Command
from agentbench.execution.lab import Lab
from agentbench.sandbox.protocol import Sandbox

LIMIT_SEC = 600


def measure(lab: Lab, task: LoadedTask, runs: int) -> tuple[float, float]:
    """Return the lowest CPU seconds of plain pytest and of the pinned runner."""
    context = lab.grading_context(lab.prepare(task))
    check = task.checks[0]
    command = parse_pytest_command(check.command or "")
    candidate = Candidate(context, base_entries(context), (), protection_of(context)).reference()
    if command is None or candidate is None:
        raise SystemExit(f"{task.id}: needs a pytest check and a reference")
    tests = PytestCheck(candidate, check, command)
    plain, pinned = [], []
    with unpacked_bundle(configuration_file(context, tests.survey)) as bundle:
        for _ in range(runs):
            with candidate.replica(candidate.tree, [bundle.mount]) as sandbox:
                start = _cpu(sandbox)
                sandbox.run(_plain(command, context.spec.workdir))
                middle = _cpu(sandbox)
                pins = tests._pins(SelectedTests(candidate.tree))
                run_pytest(sandbox, context.spec, command, bundle, pins=pins, limit=TimeLimit(LIMIT_SEC))
                plain.append(middle - start)
                pinned.append(_cpu(sandbox) - middle)
    return min(plain), min(pinned)


def _cpu(sandbox: Sandbox) -> float:
    return sandbox.usage().cpu_sec or 0.0


def _plain(command: PytestCommand, workdir: str) -> Command:
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in command.env.items())
    arguments = [command.python, *command.options, "-m", "pytest", *command.arguments, "-p", "no:cacheprovider"]
    line = f"cd ./{shlex.quote(command.folder or '.')} && PYTHONDONTWRITEBYTECODE=1 {variables} {shlex.join(arguments)}"
    return Command(line=line, cwd=workdir, env=ENV, timeout_sec=LIMIT_SEC)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("tasks", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    with Lab(sandbox="bwrap") as lab:
        for folder in options.tasks:
            task = load_task(folder)
            plain, pinned = measure(lab, task, options.runs)
            print(f"{task.id:<40}plain {plain:.2f} s, runner {pinned:.2f} s, {pinned / plain:.2f} times", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
