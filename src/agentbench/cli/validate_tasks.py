"""`ab validate-tasks`: check that baselines fail, references pass and results are stable."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Unpack

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option, workers_option
from agentbench.cli.output import progress_printer
from agentbench.cli.selection import SelectionOptions, select_tasks, selection_options

EPILOG = """\b
Examples:
  ab validate-tasks --suite demo --workers 2
  ab validate-tasks --suite mine --tasks-dir ./tasks --repeats 5 --json
  ab validate-tasks --suite mine --task 'fix-*' --limit 3
"""


@click.command(epilog=EPILOG)
@selection_options
@workers_option
@click.option(
    "--repeats", type=click.IntRange(2, 100), default=2, show_default=True, help="Runs of baseline and reference each."
)
@sandbox_option
@fresh_option
@json_option
def command(
    *,
    workers: int,
    repeats: int,
    sandbox: str,
    fresh_setup: bool,
    as_json: bool,
    **selection: Unpack[SelectionOptions],
) -> None:
    """Check that each task's baseline fails, its reference passes, and results are stable.

    Exit code 1 if a task is invalid.
    """
    from agentbench.contract.freeze_scenario import notice_of_other_scenario
    from agentbench.core.text import on_one_line, printable
    from agentbench.execution.lab import Lab
    from agentbench.execution.validation import validate_suite

    tasks = select_tasks(selection).tasks
    notice = notice_of_other_scenario(tasks)
    if notice:
        click.echo(printable(f"warning: {notice}"), err=True)
    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        results = validate_suite(tasks, lab, repeats=repeats, workers=workers, report=progress_printer(quiet=as_json))
    invalid = [result for result in results if not result.valid]
    if as_json:
        click.echo(json.dumps({"tasks": [{**asdict(result), "pinned": not result.unpinned} for result in results]}))
    else:
        click.echo(f"{len(results) - len(invalid)} of {len(results)} tasks are valid")
        for result in results:
            flaky = ", flaky: " + ", ".join(result.flaky) if result.flaky else ""
            verdict = "valid" if result.valid else "NOT VALID"
            why = f": {on_one_line(result.why)}" if result.why else ""
            coverage = "" if result.decoy_coverage is None else f", decoy coverage {result.decoy_coverage:.0%}"
            pinned = ", NOT PINNED" if result.unpinned else ""
            outcomes = f"baseline {result.baseline}, reference {result.reference}{coverage}{pinned}{flaky}"
            click.echo(printable(f"  {result.task_id}: {verdict} ({outcomes}){why}"))
        unpinned = [result for result in results if result.unpinned]
        if unpinned:
            first = f"{unpinned[0].task_id}: {unpinned[0].unpinned}"
            click.echo(
                printable(
                    f"warning: {len(unpinned)} of {len(results)} tasks are NOT PINNED, so their environment can change ({first})"
                ),
                err=True,
            )
    sys.exit(1 if invalid else 0)
