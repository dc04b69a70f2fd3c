"""`ab retry`: repeat attempts of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agentbench.cli.notify import notify_option
from agentbench.cli.options import RUN, executor_option, fail_on_option, json_option, workers_option

EPILOG = """\b
Examples:
  ab retry latest
  ab retry RUN --errors --workers 2
  ab retry RUN --failed

\b
--invalid   attempts outside every rate (harness error, invalid task, operator), and attempts that are missing,
            as with `ab run --resume`; in the same run: the new record supersedes the old one, which stays
--errors    attempts that ended in a harness error, also while grading; in a new run
--failed    attempts that count and did not pass; in a new run

A new run names the old one in its run.json, and reports say so: repeating only what did not pass would raise a pass
rate, so an attempt that counts is never superseded.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--invalid", "kind", flag_value="invalid", default=True, help="Repeat invalid attempts [default].")
@click.option("--errors", "kind", flag_value="errors", help="Repeat harness errors in a new run.")
@click.option("--failed", "kind", flag_value="failed", help="Repeat attempts that did not pass in a new run.")
@fail_on_option
@workers_option
@executor_option
@notify_option
@json_option
def command(
    run: Path, *, kind: str, fail_on: str | None, workers: int, executor: str, ray_address: str, as_json: bool
) -> None:
    """Repeat attempts of a run with the options and the tasks that it was started with."""
    from dataclasses import replace

    from agentbench.cli.fail_on import parse
    from agentbench.cli.launch import finish, resume_run, run_rows
    from agentbench.core.errors import InputError
    from agentbench.execution.request import plan_attempts, recorded_request, recorded_tasks, require_agents
    from agentbench.execution.resumed_rows import rows_of
    from agentbench.execution.retry import RetryKind, link_to, require_attempts, retried_rows
    from agentbench.execution.study import remaining_rows
    from agentbench.record.run_directory import RunDirectory

    conditions = parse(fail_on) if fail_on is not None else ()
    chosen = RetryKind(kind)
    directory = RunDirectory.open(run)
    recorded = recorded_request(directory)
    if chosen.in_place and recorded.stop_when is not None:
        msg = f"{directory.path} has a stopping rule, whose looks have used its records: none of them can be superseded"
        raise InputError(msg, remedy="continue it with `ab run --resume`; invalid attempts are outside the comparison")
    # Attempts in a new run are no comparison that a rule could stop.
    request = replace(recorded, workers=workers, executor=executor, ray_address=ray_address, stop_when=None)
    request = replace(request, out=directory.path.parent)
    number = require_attempts(directory, chosen)
    tasks = recorded_tasks(directory, request)
    rows = rows_of(directory, plan_attempts(tasks, request))
    if chosen.in_place:
        missing = len(remaining_rows([directory], rows, chosen.wants)) - number
        _announce(number, "in the same run", missing, quiet=as_json)
        result = resume_run(directory.path, tasks, request, again=chosen.wants, as_json=as_json)
    else:
        rows = retried_rows(directory, rows, chosen)
        require_agents(rows)
        _announce(number, f"in a new run; {directory.path.name} does not change", quiet=as_json)
        result = run_rows(rows, request, link=link_to(directory, chosen), as_json=as_json)
    sys.exit(finish(result, conditions, as_json=as_json))


def _announce(number: int, where: str, missing: int = 0, *, quiet: bool) -> None:
    from agentbench.reports.number_format import plural

    if not quiet:
        added = (
            f", and making {plural(missing, 'attempt')} that {'is' if missing == 1 else 'are'} missing"
            if missing
            else ""
        )
        click.echo(f"Repeating {plural(number, 'attempt')} {where}{added}.", err=True)
