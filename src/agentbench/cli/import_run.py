"""`ab import-run`: read results of another tool as a run directory."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import FOLDER, json_option

EPILOG = """\b
Examples:
  ab import-run logs/2026-11-18_task.eval
  ab import-run trajectories/ --format atif --out artifacts/imported
  ab report paired RUN_A RUN_B

\b
Formats:
  inspect  log of Inspect AI (.eval or .json)
  atif     trajectories of Harbor (a file or a folder)

Nothing is graded: the run repeats what the other tool decided, and reports mark it as imported. It can be shown, summarised and
compared with runs that were imported from the same tool for the same tasks. It cannot be verified or signed. Other imports: tasks with
`ab task import`, patches with `ab grade`, bundles with `ab show`.
"""


@click.command(epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--format", "form", metavar="FORMAT", help="Format; see below [default: recognised].")
@click.option(
    "--out", type=FOLDER, default=Path("artifacts/runs"), show_default=True, help="Folder for run directories."
)
@json_option
def command(path: Path, *, form: str | None, out: Path, as_json: bool) -> None:
    """Read results of another tool as a run directory."""
    from agentbench.exchange.imported_run import write_imported_run
    from agentbench.exchange.registry import find_importer
    from agentbench.reports.number_format import attempts_passed

    importer = find_importer(path, form)
    run = write_imported_run(importer.read(path), path, out)
    if as_json:
        counts = {"attempts": run.attempts, "passed": run.passed, "invalid": run.invalid}
        click.echo(json.dumps({"run_dir": str(run.path), "format": importer.name, **counts}))
        return
    click.echo(f"Imported from {importer.name}: {attempts_passed(run.passed, run.attempts - run.invalid, run.invalid)}")
    click.echo(f"Run directory: {run.path}")
