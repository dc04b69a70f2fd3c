"""`ab run`: agents on a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from agentbench.cli.options import FOLDER, RunOptions, cli_choices, run_options, tasks_dir_option

if TYPE_CHECKING:
    from agentbench.cli.launch import Asked, Done

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
    choices = cli_choices(options)
    asked = asked_for(suite or "", options, choices, tasks_dir=str(tasks_dir.absolute()), variants=variants)
    if resume is not None:
        conditions = parse(options["fail_on"]) if options["fail_on"] is not None else ()
        sys.exit(
            finish(
                _resumed(resume, asked, dry=options["dry_run"], quiet=as_json),
                conditions,
                as_json=as_json,
            )
        )
    if suite is None:
        raise click.UsageError("Missing option '--suite' (or '--resume').")
    tasks = load_suite(suite, tasks_dir).tasks
    sys.exit(carry_out_or_estimate(tasks, asked, options))


def _resumed(path: Path, given: Asked, *, dry: bool, quiet: bool) -> Done:
    import dataclasses

    from agentbench.cli.launch import Asked, resume
    from agentbench.contract.load import load_task
    from agentbench.contract.suite import load_suite
    from agentbench.core.errors import InputError
    from agentbench.record.run_directory import RunDirectory

    request = RunDirectory.open(path).meta.get("request")
    try:
        asked = Asked.from_json(request) if isinstance(request, dict) else None
    except (TypeError, ValueError, KeyError):
        asked = None
    if asked is None:
        msg = f"{path}/run.json does not say what was asked for, so the run cannot be resumed"
        raise InputError(msg)
    other = ["--dry-run"] if dry else []
    other += [option for option, name in _said().items() if _value(given, name) != _value(asked, name)]
    if other:
        msg = f"--resume does what the run was asked to do, and {', '.join(other)} would be something else"
        raise InputError(
            msg, remedy="leave it out, or start a new run; --workers, --executor and --fail-on are free to choose"
        )
    asked = dataclasses.replace(asked, workers=given.workers, executor=given.executor)
    if asked.task_paths:
        tasks = tuple(load_task(Path(one)) for one in asked.task_paths)
    else:
        tasks = load_suite(asked.suite, Path(asked.tasks_dir)).tasks
    return resume(path, tasks, asked, quiet=quiet)


_FREE = frozenset({"resume", "workers", "executor", "fail_on", "as_json", "dry_run", "out"})
"""How fast it goes on, what is printed and where the run lies is free to choose; what it does is not."""


def _said() -> dict[str, str]:
    """Options that stand on the command line and say what to do, with their names."""
    context = click.get_current_context()
    return {
        one.opts[0]: one.name
        for one in context.command.params
        if one.name not in _FREE and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE
    }


def _value(asked: Asked, name: str) -> object:
    return getattr(asked.choices if hasattr(asked.choices, name) else asked, name)
