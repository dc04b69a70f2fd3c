"""`ab validate-tasks`: is a task fit to judge anybody?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option, tasks_dir_option, workers_option

EPILOG = """\b
Examples:
  ab validate-tasks --suite demo --workers 2
  ab validate-tasks --suite mine --tasks-dir ./tasks --repeats 5 --json
"""


@click.command(epilog=EPILOG)
@click.option("--suite", required=True, help="The suite's name.")
@tasks_dir_option
@workers_option
@click.option("--repeats", type=click.IntRange(2, 100), default=2, show_default=True, help="Runs of the flake screen.")
@sandbox_option
@fresh_option
@json_option
def command(
    *, suite: str, tasks_dir: Path, workers: int, repeats: int, sandbox: str, fresh_setup: bool, as_json: bool
) -> None:
    """Check that each task's baseline fails, its reference passes, and nothing flakes.

    Exit 1 when a task is not valid.
    """
    from agentbench.contract.suite import load_suite
    from agentbench.core.text import printable
    from agentbench.run.lab import Lab
    from agentbench.run.validation import validate_suite

    tasks = load_suite(suite, tasks_dir).tasks

    def tell(line: str) -> None:
        if not as_json:
            click.echo(printable(line), err=True)

    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        found = validate_suite(tasks, lab, repeats=repeats, workers=workers, report=tell)
    invalid = [one for one in found if not one.valid]
    if as_json:
        click.echo(json.dumps({"tasks": [asdict(one) for one in found]}))
    else:
        click.echo(f"{len(found) - len(invalid)} of {len(found)} tasks are valid")
        for one in found:
            flaky = ", flaky: " + ", ".join(one.flaky) if one.flaky else ""
            verdict = "valid" if one.valid else "NOT VALID"
            why = f": {one.why}" if one.why else ""
            click.echo(
                printable(
                    f"  {one.task_id}: {verdict} (baseline {one.baseline}, reference {one.reference}{flaky}){why}"
                )
            )
    sys.exit(1 if invalid else 0)
