"""`ab operator`: list or answer questions of paused attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from agentbench.cli.options import RUN, json_option, out_option
from agentbench.cli.output import attempt_label, called_as
from agentbench.core.text import shell_quoted

if TYPE_CHECKING:
    from agentbench.execution.operator import PendingQuestion

EPILOG = """\b
Examples:
  ab operator list
  ab operator decide artifacts/runs/RUN --continue --reason "the task needs the compiler"
  ab operator decide artifacts/runs/RUN --stop --reason "not in this sandbox" --question 01J…-17
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """List or answer questions of paused attempts (runs started with --operator).

    An attempt without an answer before its deadline is stopped. Other attempts continue meanwhile.
    """


@command.command("list", epilog=EPILOG)
@click.argument("run", type=RUN, required=False)
@out_option
@json_option
def list_questions(run: Path | None, out: Path, *, as_json: bool) -> None:
    """List pending questions of one run or of all runs."""
    from dataclasses import asdict

    from agentbench.core.text import printable
    from agentbench.execution.operator import pending_questions
    from agentbench.record.run_directory import RunDirectory

    runs = [RunDirectory.open(run).path] if run is not None else sorted(path for path in out.glob("*") if path.is_dir())
    pending = [(path, question) for path in runs for question in pending_questions(path)]
    if as_json:
        click.echo(
            json.dumps(
                {"questions": [{"run_dir": str(path.absolute()), **asdict(question)} for path, question in pending]}
            )
        )
        return
    click.echo(f"Pending decisions: {len(pending)}" if pending else "No pending decisions.")
    for path, question in pending:
        label = attempt_label(*question.key)
        click.echo(printable(f"  {question.id}  {label}: {question.rule}"))
        click.echo(printable(f"    {question.detail}"))
        for line in question.call.splitlines():
            click.echo(f"    | {printable(line)}")
        answer = f"{called_as()} operator decide {shell_quoted(path)} --question {question.id}"
        click.echo(f"    until {question.deadline_at}, type one of:")
        click.echo(f"    {answer} --continue --reason 'why it may go on'")
        click.echo(f"    {answer} --stop --reason 'why it must not'")


@command.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--continue", "decision", flag_value="continue", help="Continue the attempt.")
@click.option("--stop", "decision", flag_value="stop", help="Stop the attempt.")
@click.option("--reason", required=True, help="Reason, recorded in the attempt's log.")
@click.option("--question", help="Question id, if several are pending.")
@click.option("--operator", "name", help="Name of the operator [default: your user name].")
def decide(
    run: Path, decision: Literal["continue", "stop"] | None, reason: str, question: str | None, name: str | None
) -> None:
    """Answer a pending question. Only the first answer counts."""
    from agentbench.core.user_name import user_name
    from agentbench.execution.operator import write_answer

    if decision is None:
        raise click.UsageError("Give --continue or --stop.")
    if not reason.strip():
        raise click.UsageError("--reason must not be empty.")
    pending = _pending_question(run, question)
    write_answer(run, pending, decision, name or user_name(), reason.strip())
    click.echo(f"{decision}: {pending.task_id} · {pending.variant} ({pending.id})")


def _pending_question(run: Path, question: str | None) -> PendingQuestion:
    from agentbench.core.errors import InputError
    from agentbench.execution.operator import pending_questions
    from agentbench.record.run_directory import RunDirectory

    pending = pending_questions(RunDirectory.open(run).path)
    if question is not None:
        pending = tuple(candidate for candidate in pending if candidate.id == question)
    if not pending:
        raise InputError(f"no pending question {question} in {run}" if question else f"no pending decisions in {run}")
    if len(pending) > 1:
        msg = f"{len(pending)} questions are pending in {run}; choose one with --question"
        raise InputError(msg, remedy=f"pending: {', '.join(candidate.id for candidate in pending)}")
    return pending[0]
