"""Print the result of a run, or how to continue it."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentbench.run.study import StudyResult


def print_result(result: StudyResult, *, as_json: bool) -> None:
    """Print one JSON document, or a total and one line per attempt; for a single attempt only its verdict."""
    if as_json:
        _print_json(result)
        return
    from agentbench.core.text import printable
    from agentbench.record.headline import headline

    lines = []
    passed = 0
    for record in result.records():
        passed += record.result.passed
        repeat = f" · repeat {record.repeat}" if record.repeat > 1 else ""
        lines.append((f"  {record.task_id} · {record.variant}{repeat}: ", printable(headline(record))))
    if len(lines) == 1:
        click.echo(lines[0][1])
    else:
        click.echo(f"{passed} of {len(lines)} attempts passed")
        for label, verdict in lines:
            click.echo(label + verdict)
    for path in result.runs:
        click.echo(f"Details: ab show {path}")


def print_resume_command(path: Path) -> None:
    """Print the command that continues an interrupted run."""
    click.echo(f"To continue: {called_as()} run --resume {shlex.quote(str(path))}", err=True)


def called_as() -> str:
    """Return the command as it was called, because in a fresh checkout `ab` is not on the PATH."""
    called = Path(sys.argv[0])
    return str(called) if called.name in {"ab", "agentbench"} and called.parent != Path() else "ab"


def _print_json(result: StudyResult) -> None:
    """Write the records one by one, because all of them may not fit in memory."""
    runs = [str(path.absolute()) for path in result.runs]
    write = sys.stdout.write
    write(f'{{"run_dir": {json.dumps(runs[0])}, "run_dirs": {json.dumps(runs)}, "attempts": [')
    for index, record in enumerate(result.records()):
        write(", " * bool(index) + record.line().decode())
    write("]}\n")
