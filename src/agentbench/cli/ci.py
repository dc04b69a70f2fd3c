"""`ab ci`: what a CI system posts about a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, RUN_OR_BUNDLE, json_option, tasks_dir_option

if TYPE_CHECKING:
    from agentbench.reports.gate import GateVerdict
    from agentbench.reports.paired import PairedReport
    from agentbench.reports.sources import Run

EPILOG = """\b
Examples:
  ab ci comment latest
  ab ci comment RUN --compare BASELINE --gate gate.yaml --out comment.md
  ab ci annotations RUN --tasks-dir tasks
  ab ci annotations RUN --format sarif > agentbench.sarif
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Write what a CI system posts about a run."""


@command.command("comment", epilog=EPILOG)
@click.argument("run", type=RUN_OR_BUNDLE)
@click.option("--compare", type=RUN_OR_BUNDLE, metavar="RUN", help="Baseline; RUN is compared with it.")
@click.option("--gate", "gate_file", type=FILE, help="Gate file (YAML) for the comparison; sets the exit code.")
@click.option(
    "--key", default="results", show_default=True, help="Name of the comment; one with the same name is replaced."
)
@click.option("--out", type=FILE, help="File to write [default: stdout].")
@json_option
def comment_command(
    run: Path, *, compare: Path | None, gate_file: Path | None, key: str, out: Path | None, as_json: bool
) -> None:
    """Write a comment for a pull request: Markdown of at most 65,536 characters.

    Text of agents and tasks is escaped. The first line is a marker that names the comment. Exit code with --gate: 0 if it
    holds, 1 if it fails, 2 if it is undecided, also because the runs cannot be compared.
    """
    import json
    import re

    from agentbench.reports.ci_comment import comment
    from agentbench.reports.sources import open_run

    if gate_file is not None and compare is None:
        raise click.UsageError("--gate needs --compare.")
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._ ]|-(?!-)){0,59}", key):
        raise click.UsageError("--key: expected up to 60 letters, digits, dots, blanks, underscores and single dashes.")
    opened = open_run(run)
    compared, gate = _compared(opened, compare, gate_file) if compare is not None else (None, None)
    text = comment(opened, compared, gate, key)
    if out is not None:
        out.write_text(text, encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"comment": text, "gate": gate.as_json() if gate else None}, indent=2))
    elif out is None:
        click.echo(text, nl=False)
    if gate is not None and gate.exit_code:
        raise click.exceptions.Exit(gate.exit_code)


@command.command("annotations", epilog=EPILOG)
@click.argument("run", type=RUN_OR_BUNDLE)
@tasks_dir_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["github", "sarif"]),
    default="github",
    show_default=True,
    help="Commands of GitHub Actions, at most ten, or a SARIF 2.1.0 log with all attempts that did not pass.",
)
def annotations_command(run: Path, *, tasks_dir: Path, form: str) -> None:
    """Print annotations that mark failed tasks in the list of changed files."""
    import json

    from agentbench.reports.ci_comment import task_annotations
    from agentbench.reports.sarif import sarif_log
    from agentbench.reports.sources import open_run

    opened = open_run(run)
    folder = tasks_dir.as_posix()
    lines = task_annotations(opened, folder) if form == "github" else [json.dumps(sarif_log(opened, folder), indent=2)]
    for line in lines:
        click.echo(line)


def _compared(run: Run, baseline: Path, gate_file: Path | None) -> tuple[PairedReport | None, GateVerdict | None]:
    """Compare a run with its baseline and check the gate. Runs that cannot be compared leave a gate undecided."""
    from agentbench.core.errors import InputError
    from agentbench.reports.gate import check_gate, read_gate, undecided
    from agentbench.reports.paired import compare_sides
    from agentbench.reports.sources import open_run, refuse_same_results, run_side
    from agentbench.statistics.trials import Rate

    gate = read_gate(gate_file) if gate_file else None
    margin = gate.non_inferiority.margin if gate and gate.non_inferiority else None
    sides = run_side(open_run(baseline)), run_side(run)
    refuse_same_results(*sides)
    try:
        report = compare_sides(*sides, rate=gate.rate if gate else Rate.CONTRACT, margin=margin)
    except InputError as error:
        if gate is None:
            raise
        return None, undecided(error.message)
    return report, check_gate(gate, report) if gate else None
