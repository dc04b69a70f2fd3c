"""Print the result of a run, or how to continue it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.core.text import shell_quoted

if TYPE_CHECKING:
    from agentbench.execution.study import StudyResult
    from agentbench.record.schema import AttemptRecord


def print_result(result: StudyResult, *, as_json: bool) -> None:
    """Print one JSON document, or a total per method and one line per attempt; for a single attempt only its verdict.

    A reader that closes the pipe does not change the exit code: conditions of `--fail-on` are still decided.
    """
    try:
        if as_json:
            _print_json(result)
        else:
            _print_lines(result)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def discard_stdout() -> None:
    """Leave out everything that is printed from now on, after the reader closed the pipe, as in `ab show … | head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_lines(result: StudyResult) -> None:
    from agentbench.agents.base import not_found
    from agentbench.core.reasons import InvalidCause
    from agentbench.core.text import printable
    from agentbench.record.headline import headline
    from agentbench.reports.number_format import attempts_passed

    lines = []
    totals: dict[str, list[int]] = {}
    commands_found: dict[str, bool] = {}
    for record in result.records():
        total = totals.setdefault(record.variant, [0, 0, 0])
        total[0] += record.result.passed
        total[1 if record.invalid_cause in (None, InvalidCause.SAFETY) else 2] += 1
        found = not not_found(record.termination.rationale)
        commands_found[record.variant] = commands_found.get(record.variant, False) or found
        label = attempt_label(*record.key)
        lines.append((f"  {label}: ", printable(headline(record))))
    if len(lines) == 1:
        click.echo(lines[0][1])
    else:
        for variant, total in totals.items():
            method = f"{printable(variant)}: " if len(totals) > 1 else ""
            click.echo(method + attempts_passed(*total))
        for label, verdict in lines:
            click.echo(label + verdict)
    for variant in (variant for variant, found in commands_found.items() if not found):
        problem = f"warning: the command of {printable(variant)} was not found in any attempt (exit status 127)"
        click.echo(f"{problem}; check --agent-command or the variant's `command`", err=True)
    if result.stop_reason:
        click.echo(printable(result.stop_reason))
    for path in result.runs:
        click.echo(f"Details: ab show {shell_quoted(path)}")
    if len(result.runs) > 1:
        verb = "paired" if len(result.runs) == 2 else "compare"
        click.echo(f"Compare: ab report {verb} {shlex.join(map(str, result.runs))}")


def progress_printer(*, quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line on stderr, or with `quiet` nothing."""
    from agentbench.core.text import printable

    return lambda line: None if quiet else click.echo(printable(line), err=True)


def attempt_label(task: str, variant: str, repeat: int) -> str:
    """Name an attempt in a line: `median · baseline`, from the second repeat on with its number."""
    return f"{task} · {variant}" + (f" · repeat {repeat}" if repeat > 1 else "")


def print_resume_command(path: Path, options: str = "") -> None:
    """Print the command that continues an interrupted run."""
    click.echo(f"To continue: {called_as()} run --resume {shell_quoted(path)} {options}".rstrip(), err=True)


def print_unfinished(path: Path, records: Sequence[AttemptRecord]) -> None:
    """Print how many attempts of a run have no result although it ended, and the command that repeats them."""
    from agentbench.core.reasons import TerminationCode
    from agentbench.reports.number_format import plural

    over_budget = [record for record in records if record.termination.code is TerminationCode.TOTAL_BUDGET]
    unavailable = [record for record in records if record.termination.code is TerminationCode.MODEL_UNAVAILABLE]
    if unavailable:
        click.echo(f"{plural(len(unavailable), 'attempt')} without a result: the model was unavailable.", err=True)
    if over_budget:
        click.echo(f"{plural(len(over_budget), 'attempt')} without a result: the total budget is spent.", err=True)
    options = ("--task-usd", "--total-usd")
    spent = [name for name in options if any(name in record.termination.rationale for record in over_budget)]
    print_resume_command(path, " ".join(f"{name} USD" for name in spent))


def called_as() -> str:
    """Return the command as it can be typed: its path if it is not the one on the PATH, as in a fresh checkout."""
    called = Path(sys.argv[0])
    if called.name not in {"ab", "agentbench"}:
        return "ab"
    return called.name if shutil.which(called.name) == str(called) else str(called)


def _print_json(result: StudyResult) -> None:
    """Write the records one by one, because all of them may not fit in memory."""
    from agentbench.reports.sources import ended_state

    state = ended_state(result.runs)
    runs = [str(path.absolute()) for path in result.runs]
    write = sys.stdout.write
    stopped = f'"stop_reason": {json.dumps(result.stop_reason)}, ' if result.stop_reason else ""
    write(
        f'{{"run_dir": {json.dumps(runs[0])}, "run_dirs": {json.dumps(runs)}, "state": "{state}", {stopped}"attempts": ['
    )
    for index, record in enumerate(result.records()):
        write(", " * bool(index) + record.line().decode())
    write("]}\n")
