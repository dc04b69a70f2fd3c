"""`ab run-task`: run an agent on one task."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Unpack

import click

from agentbench.cli.option_sections import SectionedCommand
from agentbench.cli.options import RunOptions, cli_choices, run_options

EPILOG = """\b
Examples:
  ab run-task --task tasks/mine/bug --agent noop
  ab run-task --task tasks/mine/bug --agent command --agent-command 'sh fix.sh' --json
"""


@click.command(cls=SectionedCommand, epilog=EPILOG)
@click.option("--task", "path", type=click.Path(path_type=Path), required=True, help="Task folder or task.yaml.")
@click.option("--variant", "variants", multiple=True, help="Variant from configs/variants.")
@run_options
def command(*, path: Path, variants: tuple[str, ...], **options: Unpack[RunOptions]) -> None:
    """Run an agent on one task and print the verdict."""
    from agentbench.cli.launch import make_request, run_or_estimate
    from agentbench.contract.load import load_task

    choices = cli_choices(options)
    task = load_task(path)
    request = make_request(task.task.suite, options, choices, task_paths=(str(path.absolute()),), variants=variants)
    sys.exit(run_or_estimate([task], request, options))
