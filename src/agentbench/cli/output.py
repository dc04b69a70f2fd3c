"""How results of a study are printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentbench.cli.launch import Done


def print_done(done: Done, *, as_json: bool) -> None:
    """One JSON document, or the decision of each attempt below a first line that sums them up."""
    if as_json:
        document = {
            "run_dir": str(done.runs[0].absolute()),
            "run_dirs": [str(path.absolute()) for path in done.runs],
            "attempts": [record.model_dump(mode="json") for record in done.records],
        }
        click.echo(json.dumps(document))
        return
    from agentbench.core.text import printable
    from agentbench.grading.headline import headline

    if len(done.records) == 1:
        click.echo(printable(headline(done.records[0])))
    else:
        passed = sum(record.result.passed for record in done.records)
        click.echo(f"{passed} of {len(done.records)} attempts passed")
        for record in done.records:
            repeat = f" · repeat {record.repeat}" if record.repeat > 1 else ""
            click.echo(f"  {record.task_id} · {record.variant}{repeat}: {printable(headline(record))}")
    for path in done.runs:
        click.echo(f"see: ab show {path}")
