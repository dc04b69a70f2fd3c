"""`ab run`: agents on a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from agentbench.cli.options import FOLDER, RunOptions, cli_choices, run_options, tasks_dir_option

if TYPE_CHECKING:
    from agentbench.cli.launch import Done

EPILOG = """\b
Examples:
  ab run --suite demo --agent reference --workers 2
  ab run --suite mine --agent command --agent-command 'sh "$AB_AGENT_FILES/solve.sh"' --agent-files ./agent
  ab run --resume artifacts/runs/RUN
"""


@click.command(epilog=EPILOG)
@click.option("--suite", help="The suite's name.")
@tasks_dir_option
@click.option("--variant", "variants", multiple=True, help="A method from configs/variants; several are interleaved.")
@run_options
@click.option("--resume", type=FOLDER, help="Continue this run directory instead of starting a new one.")
def command(
    *,
    suite: str | None,
    tasks_dir: Path,
    variants: tuple[str, ...],
    resume: Path | None,
    **options: Unpack[RunOptions],
) -> None:
    """Run agents on a suite: every attempt in a sandbox, every verdict in a fresh one.

    An agent that fails its tasks is a result: exit 0. Ctrl-C records what is in flight as interrupted; --resume goes on.
    """
    from agentbench.cli.fail_on import parse
    from agentbench.cli.launch import asked_for, carry_out_or_estimate, finish
    from agentbench.contract.suite import load_suite

    as_json = options["as_json"]
    if resume is not None:
        conditions = parse(options["fail_on"]) if options["fail_on"] is not None else ()
        sys.exit(
            finish(
                _resumed(resume, workers=options["workers"], executor=options["executor"], quiet=as_json),
                conditions,
                as_json=as_json,
            )
        )
    if suite is None:
        raise click.UsageError("Missing option '--suite' (or '--resume').")
    choices = cli_choices(options)
    tasks = load_suite(suite, tasks_dir).tasks
    asked = asked_for(suite, options, choices, tasks_dir=str(tasks_dir.absolute()), variants=variants)
    sys.exit(carry_out_or_estimate(tasks, asked, options))


def _resumed(path: Path, *, workers: int, executor: str, quiet: bool) -> Done:
    import dataclasses

    from agentbench.cli.launch import Asked, resume
    from agentbench.contract.load import load_task
    from agentbench.contract.suite import load_suite
    from agentbench.core.errors import InputError
    from agentbench.record.rundir import RunDirectory

    request = RunDirectory.open(path).meta.get("request")
    if not isinstance(request, dict):
        msg = f"{path}/run.json does not say what was asked for, so the run cannot be resumed"
        raise InputError(msg)
    # How fast it goes on is free to choose; what it does is not.
    asked = dataclasses.replace(Asked.from_json(request), workers=workers, executor=executor)
    if asked.task_paths:
        tasks = tuple(load_task(Path(one)) for one in asked.task_paths)
    else:
        tasks = load_suite(asked.suite, Path(asked.tasks_dir)).tasks
    return resume(path, tasks, asked, quiet=quiet)
