"""`ab task check-probe`: try the drivers of probes and explain what is wrong with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option, sandbox_option

if TYPE_CHECKING:
    from agentbench.acceptance.checks.probe_trial import ProbeTrial, ProbeTrials

EPILOG = """\b
Example:
  ab task check-probe tasks/mine/fix-median
"""


@click.command("check-probe", epilog=EPILOG)
@click.argument("path", metavar="TASK", type=click.Path(path_type=Path))
@sandbox_option
@json_option
def command(path: Path, *, sandbox: str, as_json: bool) -> None:
    """Run the drivers of TASK's probes on the base repository and with the reference.

    Exit code 1 if a driver does not finish, accepts the base repository or rejects the reference.
    """
    from dataclasses import asdict

    from agentbench.contract.load import load_task
    from agentbench.execution.lab import Lab
    from agentbench.execution.validation import try_probes

    with Lab(sandbox=sandbox) as lab:
        probes = try_probes(load_task(path), lab)
    if as_json:
        rows = [{"ok": not probe.problems, **asdict(probe)} for probe in probes]
        click.echo(json.dumps({"ok": all(row["ok"] for row in rows), "checks": rows}, indent=2))
    else:
        for probe in probes:
            _show(probe)
    sys.exit(1 if any(probe.problems for probe in probes) else 0)


def _show(probe: ProbeTrials) -> None:
    from agentbench.core.text import printable

    lines = [f"{probe.check}: {'NOT VALID' if probe.problems else 'valid'}"]
    lines += [f"  problem: {problem}" for problem in probe.problems]
    for trial in probe.trials:
        lines += _lines(trial)
    click.echo(printable("\n".join(lines), keep="\n"))


def _lines(trial: ProbeTrial) -> list[str]:
    passed = len(trial.results) - len(trial.failed)
    lines = [f"  {trial.program}: {passed} of {len(trial.results)} results pass"]
    lines += [f"    {trial.problem}"] if trial.problem else []
    for test, outcome, why in trial.results:
        lines.append(f"    {outcome:<6}  {test}{f'  {why}' if why else ''}")
    for name, text in (("driver", trial.driver_stderr), ("program", trial.program_stderr)):
        lines += [f"    stderr of the {name}:", *(f"      | {line}" for line in text.splitlines())] if text else []
    return lines
