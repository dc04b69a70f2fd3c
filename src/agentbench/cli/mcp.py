"""`ab mcp`: serve suites, runs and traces to agents and editors."""

from __future__ import annotations

from pathlib import Path

import click

from agentbench.cli.options import FILE, FOLDER, Amount, sandbox_option, tasks_dir_option, workers_option

EPILOG = """\b
Examples:
  ab mcp
  ab mcp artifacts/runs archive --tasks-dir benchmarks
  ab mcp --allow-runs --max-attempts 20 --max-usd 2 --model openrouter:vendor/model

PATH is a run directory or a folder of runs; the default is artifacts/runs. Speaks the Model Context Protocol on stdin and stdout, so
a client starts it. Needs `pip install 'agentbench-harness[mcp]'`.
"""


@click.command(epilog=EPILOG)
@click.argument("paths", metavar="[PATH…]", nargs=-1, type=FOLDER)
@tasks_dir_option
@click.option("--allow-runs", is_flag=True, help="Let clients start runs on existing suites [default: they only read].")
@click.option(
    "--max-attempts",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Attempts that clients may start in total (with --allow-runs).",
)
@click.option(
    "--max-usd",
    type=Amount(positive=True),
    default=1.0,
    show_default=True,
    help="Cost cap for all runs that clients start (with --allow-runs).",
)
@click.option("--model", "models", multiple=True, help="Model that clients may choose; can be repeated.")
@click.option("--prices", type=FILE, help="Price table (CSV) [default: costs in abstract units].")
@workers_option
@sandbox_option
def command(
    paths: tuple[Path, ...],
    *,
    tasks_dir: Path,
    allow_runs: bool,
    max_attempts: int,
    max_usd: float,
    models: tuple[str, ...],
    prices: Path | None,
    workers: int,
    sandbox: str,
) -> None:
    """Serve suites, tasks, runs and traces over the Model Context Protocol. Read-only unless --allow-runs is given.

    Hidden tests, references and the output of checks are not served. Runs that clients start are written to the first
    PATH.
    """
    from agentbench.cli.settings import runs_folder
    from agentbench.core.errors import InputError
    from agentbench.mcp_server.launcher import Launcher, RunLimits
    from agentbench.mcp_server.library import Library
    from agentbench.mcp_server.server import serve
    from agentbench.view.roots import Roots

    missing = [path for path in paths if not path.is_dir()]
    if missing and not allow_runs:
        raise InputError(f"{missing[0]} is not a folder", remedy="give a run directory or a folder of runs")
    folders = paths or (runs_folder(),)
    limits = RunLimits(max_attempts, max_usd, models, workers, sandbox, prices)
    launcher = Launcher(limits, tasks_dir, folders[0]) if allow_runs else None
    serve(Library(Roots.of(folders), tasks_dir), launcher)
