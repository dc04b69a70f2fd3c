"""`ab operator`: see which attempts wait for a person, and decide."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentbench.cli.options import FOLDER, json_option

if TYPE_CHECKING:
    from agentbench.run.operator import PendingQuestion

EPILOG = """\b
Examples:
  ab operator list
  ab operator decide artifacts/runs/RUN --continue --reason "the task needs the compiler"
  ab operator decide artifacts/runs/RUN --stop --reason "not in this sandbox" --question 01J…-17
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Decide about attempts that wait for a person (runs started with --operator).

    Nobody answers in time: the attempt is stopped. Other attempts go on meanwhile.
    """


@command.command("list", epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--out", type=FOLDER, default=Path("artifacts/runs"), show_default=True, help="Where runs are kept.")
@json_option
def list_questions(run: Path | None, out: Path, *, as_json: bool) -> None:
    """Show the questions that wait, of one run or of all."""
    from dataclasses import asdict

    from agentbench.core.text import printable
    from agentbench.record.run_directory import RunDirectory
    from agentbench.run.operator import pending_questions

    runs = [RunDirectory.open(run).path] if run is not None else sorted(path for path in out.glob("*") if path.is_dir())
    found = [(path, one) for path in runs for one in pending_questions(path)]
    if as_json:
        click.echo(json.dumps({"questions": [{"run_dir": str(path.absolute()), **asdict(one)} for path, one in found]}))
        return
    click.echo(f"{len(found)} waiting" if found else "nobody waits for a decision")
    for path, one in found:
        repeat = f" · repeat {one.repeat}" if one.repeat > 1 else ""
        click.echo(printable(f"  {one.id}  {one.task_id} · {one.variant}{repeat}: {one.rule}"))
        click.echo(printable(f"    {one.detail}"))
        click.echo(
            f"    until {one.deadline_at}: ab operator decide {path} --question {one.id} --continue|--stop --reason …"
        )


@command.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--continue", "decision", flag_value="continue", help="Let the attempt go on.")
@click.option("--stop", "decision", flag_value="stop", help="End the attempt; its cause is the operator.")
@click.option("--reason", required=True, help="Why; it is kept in the attempt's log.")
@click.option("--question", help="Which one, when several wait.")
@click.option("--operator", "name", help="Who decides; the user's name if not given.")
def decide(
    run: Path, decision: Literal["continue", "stop"] | None, reason: str, question: str | None, name: str | None
) -> None:
    """Answer a question. The first answer counts."""
    from agentbench.run.operator import write_answer

    if decision is None:
        raise click.UsageError("Give --continue or --stop.")
    if not reason.strip():
        raise click.UsageError("--reason must say something.")
    pending = _chosen(run, question)
    write_answer(run, pending, decision, name or getpass.getuser(), reason.strip())
    click.echo(f"{decision}: {pending.task_id} · {pending.variant} ({pending.id})")


def _chosen(run: Path, question: str | None) -> PendingQuestion:
    from agentbench.core.errors import InputError
    from agentbench.record.run_directory import RunDirectory
    from agentbench.run.operator import pending_questions

    waiting = pending_questions(RunDirectory.open(run).path)
    if question is not None:
        waiting = tuple(one for one in waiting if one.id == question)
    if not waiting:
        msg = f"no such question waits in {run}" if question else f"nobody waits for a decision in {run}"
        raise InputError(msg)
    if len(waiting) > 1:
        msg = f"{len(waiting)} questions wait in {run}: say which with --question"
        raise InputError(msg, remedy=f"there are: {', '.join(one.id for one in waiting)}")
    return waiting[0]
