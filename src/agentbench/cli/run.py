"""`ab run`: run agents on a suite."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from agentbench.cli.option_sections import SectionedCommand
from agentbench.cli.options import RUN, RunOptions, cli_choices, run_options
from agentbench.cli.selection import SelectionOptions, select_tasks, selection_options
from agentbench.cli.stopping import STOP_NAMES, StopOptions, rule_of, stop_options

if TYPE_CHECKING:
    from agentbench.execution.request import RunRequest
    from agentbench.execution.study import StudyResult

EPILOG = """\b
Examples:
  ab run --suite demo --agent reference --workers 2
  ab run --suite mine --agent command --agent-command 'sh "$AB_AGENT_FILES/solve.sh"' --agent-files ./agent
  ab run --suite mine --task 'fix-*' --stratum kind=bugfix --limit 5 --agent noop
  ab run --suite mine --variant a --variant b --repeats 3 --stop-when decided --margin 0.1
  ab run --failed-of latest --agent reference
  ab run --resume latest
  ab run --suite mine --agent noop --sign ada --witness ../witness
"""


@click.command(cls=SectionedCommand, epilog=EPILOG)
@selection_options
@click.option(
    "--variant",
    "variants",
    multiple=True,
    help="Variant from configs/variants; can be repeated, attempts are interleaved.",
)
@stop_options
@run_options
@click.option("--resume", type=RUN, help="Continue this run.")
@click.option("--view", is_flag=True, help="Show the run in the browser while it is made (see `ab view`).")
def command(
    *,
    suite: str | None,
    tasks_dir: Path,
    tasks: tuple[str, ...],
    strata: tuple[tuple[str, str], ...],
    failed_of: Path | None,
    limit: int | None,
    variants: tuple[str, ...],
    stop_when: str | None,
    stop_rule: str | None,
    looks: int | None,
    margin: float | None,
    futility: float | None,
    resume: Path | None,
    view: bool,
    **options: Unpack[RunOptions],
) -> None:
    """Run agents on a suite. Each attempt runs in a sandbox and is graded in a fresh one.

    Exit code 0 even if the agent fails its tasks; 2 or 3 if no attempt has a result because of the tasks, a spent
    total budget or the harness. Ctrl-C stops running attempts and saves their records; --resume continues.
    """
    import dataclasses

    from agentbench.cli.fail_on import parse
    from agentbench.cli.launch import finish, make_request, run_or_estimate, run_signing

    as_json = options["as_json"]
    choices = cli_choices(options)
    if resume is not None:
        request = make_request(suite or "", options, choices, tasks_dir=str(tasks_dir.absolute()), variants=variants)
        conditions = parse(options["fail_on"]) if options["fail_on"] is not None else ()
        signing = run_signing(options)
        with _view(resume.absolute().parent, tasks_dir, wanted=view):
            result = _resumed(resume, request, dry=options["dry_run"], as_json=as_json)
        sys.exit(finish(result, conditions, signing, as_json=as_json))
    selected = select_tasks(
        SelectionOptions(suite=suite, tasks_dir=tasks_dir, tasks=tasks, strata=strata, failed_of=failed_of, limit=limit)
    )
    request = make_request(
        selected.suite,
        options,
        choices,
        tasks_dir="" if selected.paths else str(selected.tasks_dir.absolute()),
        task_paths=tuple(str(path.absolute()) for path in selected.paths),
        selection=selected.record,
        variants=variants,
    )
    stop = StopOptions(stop_when=stop_when, stop_rule=stop_rule, looks=looks, margin=margin, futility=futility)
    request = dataclasses.replace(request, stop_when=rule_of(stop, variants, len(selected.tasks), options["repeats"]))
    with _view(options["out"], tasks_dir, wanted=view):
        code = run_or_estimate(selected.tasks, request, options)
    sys.exit(code)


def _view(out: Path, tasks_dir: Path, *, wanted: bool) -> AbstractContextManager[None]:
    """Return the view of the runs in `out`, or nothing."""
    if not wanted:
        return nullcontext()
    from agentbench.cli.view import shown_in_browser

    return shown_in_browser(out, tasks_dir)


def _resumed(path: Path, given: RunRequest, *, dry: bool, as_json: bool) -> StudyResult:
    import dataclasses

    from agentbench.cli.launch import resume_run
    from agentbench.core.errors import InputError
    from agentbench.core.reasons import TerminationCode
    from agentbench.execution.open_study import HIGHER_CAP
    from agentbench.execution.request import recorded_request, recorded_tasks
    from agentbench.execution.study import is_repeatable
    from agentbench.record.run_directory import RunDirectory
    from agentbench.record.run_state import run_state

    run = RunDirectory.open(path)
    request = recorded_request(run)
    changed = ["--dry-run"] if dry else []
    changed += [
        option
        for option, name in _given_options().items()
        if name in _FIXED | STOP_NAMES or _value(given, name) != _value(request, name)
    ]
    if changed:
        msg = f"{', '.join(changed)} cannot be changed when resuming"
        raise InputError(msg, remedy=f"omit it or start a new run; only {_changeable_options()} can be changed")
    ended_by_cap = any(
        record.termination.code is TerminationCode.TOTAL_BUDGET for record in filter(is_repeatable, run.finals())
    )
    # A run that was interrupted after its cap was raised may have budget left; `resume_study` checks that.
    ended = run_state(path) == "finished"
    if ended and ended_by_cap and given.task_usd is None and given.total_usd is None:
        raise InputError(f"the total budget of {path} is spent", remedy=HIGHER_CAP)
    kept = ("workers", "model_patience", "preflight", "preflight_wait")
    changeable = {name: getattr(given, name) for name in kept if _is_given(name)}
    request = dataclasses.replace(
        request,
        **changeable,
        executor=given.executor,
        ray_address=given.ray_address,
        task_usd=request.task_usd if given.task_usd is None else given.task_usd,
        total_usd=request.total_usd if given.total_usd is None else given.total_usd,
    )
    return resume_run(path, recorded_tasks(run, request), request, as_json=as_json)


_CHANGEABLE = (
    *("workers", "executor", "ray_address", "task_usd", "total_usd", "model_patience", "preflight", "preflight_wait"),
    *("sign", "witness", "notify", "fail_on"),
)
"""Options that may differ when a run is resumed: they change its speed or its end, not what attempts do."""
_OF_THE_COMMAND = frozenset({"resume", "dry_run", "out", "view", "as_json"})
"""Options of the command alone, which no request contains."""
_FIXED = frozenset({"tasks", "strata", "failed_of", "limit", "vault_recipients", "vault_passphrase"})
"""Options that a resumed run never takes: it has the tasks and the evidence that it started with."""


def _changeable_options() -> str:
    options = {parameter.name: parameter for parameter in click.get_current_context().command.params}
    flags = [(options[name].secondary_opts or options[name].opts)[0] for name in _CHANGEABLE]
    return f"{', '.join(flags[:-1])} and {flags[-1]}"


def _given_options() -> dict[str, str]:
    """Map the options given on the command line that change what a run does to their parameter names."""
    context = click.get_current_context()
    return {
        parameter.opts[0]: parameter.name
        for parameter in context.command.params
        if parameter.name not in {*_CHANGEABLE, *_OF_THE_COMMAND} and _is_given(parameter.name)
    }


def _is_given(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _value(request: RunRequest, name: str) -> object:
    return getattr(request.choices if hasattr(request.choices, name) else request, name)
