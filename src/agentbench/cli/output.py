"""How results of a study are printed."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentbench.run.study import StudyResult


def print_result(result: StudyResult, *, as_json: bool) -> None:
    """One JSON document, or the decision of each attempt below a first line that sums them up."""
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
        click.echo(f"see: ab show {path}")


def _print_json(result: StudyResult) -> None:
    """Written piece by piece: a study may have more records than memory should hold."""
    runs = [str(path.absolute()) for path in result.runs]
    write = sys.stdout.write
    write(f'{{"run_dir": {json.dumps(runs[0])}, "run_dirs": {json.dumps(runs)}, "attempts": [')
    for index, record in enumerate(result.records()):
        write(", " * bool(index) + record.line().decode())
    write("]}\n")
