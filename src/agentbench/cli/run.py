"""`ab run`: run agents on a suite."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from agentbench.cli.options import RUN, RunOptions, cli_choices, run_options, tasks_dir_option

if TYPE_CHECKING:
    from agentbench.run.request import RunRequest
    from agentbench.run.study import StudyResult

EPILOG = """\b
Examples:
  ab run --suite demo --agent reference --workers 2
  ab run --suite mine --agent command --agent-command 'sh "$AB_AGENT_FILES/solve.sh"' --agent-files ./agent
  ab run --resume artifacts/runs/RUN
"""


@click.command(epilog=EPILOG)
@click.option("--suite", help="Name of the suite.")
@tasks_dir_option
@click.option(
    "--variant",
    "variants",
    multiple=True,
    help="Variant from configs/variants; can be repeated, attempts are interleaved.",
)
@run_options
@click.option("--resume", type=RUN, help="Continue this run.")
def command(
    *,
    suite: str | None,
    tasks_dir: Path,
    variants: tuple[str, ...],
    resume: Path | None,
    **options: Unpack[RunOptions],
) -> None:
    """Run agents on a suite. Each attempt runs in a sandbox and is graded in a fresh one.

    Exit code 0 even if the agent fails its tasks. Ctrl-C stops running attempts and saves their records; --resume
    continues.
    """
    from agentbench.cli.fail_on import parse
    from agentbench.cli.launch import finish, make_request, run_or_estimate
    from agentbench.contract.suite import load_suite

    as_json = options["as_json"]
    choices = cli_choices(options)
    request = make_request(suite or "", options, choices, tasks_dir=str(tasks_dir.absolute()), variants=variants)
    if resume is not None:
        conditions = parse(options["fail_on"]) if options["fail_on"] is not None else ()
        sys.exit(
            finish(
                _resumed(resume, request, dry=options["dry_run"], quiet=as_json),
                conditions,
                as_json=as_json,
            )
        )
    if suite is None:
        raise click.UsageError("Missing option '--suite' (or '--resume').")
    tasks = load_suite(suite, tasks_dir).tasks
    sys.exit(run_or_estimate(tasks, request, options))


def _resumed(path: Path, given: RunRequest, *, dry: bool, quiet: bool) -> StudyResult:
    import dataclasses

    from agentbench.cli.launch import resume_run
    from agentbench.contract.load import load_task
    from agentbench.contract.suite import load_suite
    from agentbench.core.errors import InputError
    from agentbench.core.reasons import TerminationCode
    from agentbench.record.run_directory import RunDirectory
    from agentbench.run.request import RunRequest
    from agentbench.run.study import HIGHER_CAP, is_repeatable

    run = RunDirectory.open(path)
    recorded = run.meta.get("request")
    try:
        request = RunRequest.from_json(recorded) if isinstance(recorded, dict) else None
    except (TypeError, ValueError, KeyError):
        request = None
    if request is None:
        raise InputError(f"{path}/run.json has no usable request, so the run cannot be resumed")
    changed = ["--dry-run"] if dry else []
    changed += [option for option, name in _given_options().items() if _value(given, name) != _value(request, name)]
    if changed:
        msg = f"{', '.join(changed)} cannot be changed when resuming"
        kept = "--workers, --executor, --task-usd, --total-usd and --fail-on"
        raise InputError(msg, remedy=f"omit it or start a new run; only {kept} can be changed")
    ended_by_cap = any(
        record.termination.code is TerminationCode.TOTAL_BUDGET for record in filter(is_repeatable, run.finals())
    )
    if ended_by_cap and given.task_usd is None and given.total_usd is None:
        raise InputError(f"the total budget of {path} is spent", remedy=HIGHER_CAP)
    request = dataclasses.replace(
        request,
        workers=given.workers,
        executor=given.executor,
        task_usd=request.task_usd if given.task_usd is None else given.task_usd,
        total_usd=request.total_usd if given.total_usd is None else given.total_usd,
    )
    if request.task_paths:
        tasks = tuple(load_task(Path(folder)) for folder in request.task_paths)
    else:
        tasks = load_suite(request.suite, Path(request.tasks_dir)).tasks
    return resume_run(path, tasks, request, quiet=quiet)


_FREE = frozenset({"resume", "workers", "executor", "fail_on", "as_json", "dry_run", "out", "task_usd", "total_usd"})
"""Options that may differ when a run is resumed: they change its speed, its end or its output, not what attempts do."""


def _given_options() -> dict[str, str]:
    """Map the options given on the command line that change what a run does to their parameter names."""
    context = click.get_current_context()
    return {
        parameter.opts[0]: parameter.name
        for parameter in context.command.params
        if parameter.name not in _FREE and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


def _value(request: RunRequest, name: str) -> object:
    return getattr(request.choices if hasattr(request.choices, name) else request, name)
