"""`ab task audit`: measure how many wrong patches a task's checks accept."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option, task_paths_argument, workers_option
from agentbench.cli.output import progress_printer
from agentbench.cli.selection import SelectionOptions, select_tasks, selection_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.acceptance.mutation.audit import Audit

EPILOG = """\b
Examples:
  ab task audit tasks/mine/fix-median --workers 2
  ab task audit --suite mine --task 'fix-*'
  ab task audit tasks/mine --variants 40 --min-kill-rate 0.9 --json
"""


@click.command("audit", epilog=EPILOG)
@task_paths_argument(required=False)
@selection_options
@click.option(
    "--variants",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Number of mutated patches per task.",
)
@click.option(
    "--min-kill-rate",
    type=click.FloatRange(0, 1),
    help="Exit 1 if the checks reject a smaller share of mutated patches.",
)
@workers_option
@sandbox_option
@fresh_option
@json_option
def command(
    *,
    paths: tuple[Path, ...],
    variants: int,
    min_kill_rate: float | None,
    workers: int,
    sandbox: str,
    fresh_setup: bool,
    as_json: bool,
    **selection: Unpack[SelectionOptions],
) -> None:
    """Grade an empty patch, the reference and mutations of the reference. Only the reference should pass.

    PATHS are task folders or folders of tasks; --suite gives the tasks of a suite instead. Mutations that pass are shown as diffs: either the checks have a gap, or
    the mutation does not change behaviour. Exit code 1 if the empty patch passes, the reference fails or too few
    mutations are rejected; 2 if --min-kill-rate is given and no mutation was decided.
    """
    from agentbench.execution.lab import Lab
    from agentbench.execution.validation import audit_json, audit_tasks

    tasks = select_tasks(selection, paths).tasks
    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        audits = audit_tasks(tasks, lab, wanted=variants, workers=workers, report=progress_printer(quiet=as_json))
    if as_json:
        click.echo(json.dumps({"tasks": list(map(audit_json, audits))}))
    else:
        for audit in audits:
            _show(audit)
    sys.exit(_exit_code(audits, min_kill_rate))


def _exit_code(audits: Sequence[Audit], min_kill_rate: float | None) -> int:
    """Return 1 if an audit is unsound or below the rate, 2 if a rate is required but unknown."""
    if not all(audit.sound for audit in audits):
        return 1
    if min_kill_rate is None:
        return 0
    if any(audit.kill_rate is not None and audit.kill_rate < min_kill_rate for audit in audits):
        return 1
    unknown = [audit.task_id for audit in audits if audit.kill_rate is None]
    if unknown:
        click.echo(f"error: --min-kill-rate: no mutation of {', '.join(unknown[:10])} was decided", err=True)
        return 2
    return 0


def _show(audit: Audit) -> None:
    from agentbench.core.text import printable

    verdict = "sound" if audit.sound else "NOT SOUND"
    rate = ""
    if audit.kill_rate is not None:
        rate = f", {audit.killed} of {audit.killed + len(audit.survivors)} mutations rejected"
    click.echo(printable(f"{audit.task_id}: {verdict} (empty patch {audit.noop}, reference {audit.reference}){rate}"))
    if audit.decoy_coverage is not None:
        click.echo(f"  decoy tests for {audit.decoy_coverage:.0%} of the fail-to-pass tests")
    if not audit.sound and audit.why:
        click.echo(printable(f"  {audit.why}"))
    for name, (killed, total) in audit.by_operator().items():
        click.echo(f"  {name:<22} {killed:>3} of {total:>3} rejected")
    undecided = sum(mutation.result == "error" for mutation in audit.tried)
    if undecided:
        click.echo(f"  {undecided} undecided")
    for note in audit.notes:
        click.echo(f"  note: {note}")
    for mutation in audit.survivors:
        place = f"{mutation.path}:{mutation.line}"
        click.echo(printable(f"  accepted mutation: {mutation.operator} at {place}: {mutation.what}"))
        for line in mutation.diff.splitlines():
            click.echo(f"    {printable(line)}")
