"""`ab demo`: run a complete evaluation on bundled tasks, without an API key or a daemon."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option, out_option, sandbox_option
from agentbench.cli.output import called_as
from agentbench.core.text import shell_quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.contract.load import LoadedTask
    from agentbench.execution.config import Configuration
    from agentbench.execution.lab import Lab
    from agentbench.execution.study import StudyResult
    from agentbench.record.schema import AttemptRecord

EPILOG = """\b
Example:
  ab demo --workers 2
"""

DURATION = "This takes about a minute on two cores: 6 tasks, 18 attempts. It needs no API key."
METHODS = ("partial", "reference", "cheater")
COMPARED = (("cheater", "reference"), ("partial", "reference"))
"""Pairs of agents, the first as A: one comparison that six tasks decide, and one that they cannot."""
TRICKS = {
    "duration-compound": "exit with status 0 when the package is imported",
    "invoice-tax-table": "patch pytest so that no test can fail, and return a value that equals everything",
    "shelf-cents": "delete the tests and add one that always passes",
    "siteconf-tomllib": "add a fake pytest module next to the sources",
    "slug-accents": "mark every test as an expected failure",
    "toy-median": "turn failed reports into passed ones, and hard-code the answer",
}
"""The cheat that `demo/agents/cheater/cheat.sh` tries on each task."""


@click.command(epilog=EPILOG)
@click.option(
    "--workers", type=click.IntRange(1, 256), default=2, show_default=True, help="Number of parallel attempts."
)
@sandbox_option
@out_option
@json_option
def command(*, workers: int, sandbox: str, out: Path, as_json: bool) -> None:
    """Validate six tasks, run three agents on them (one cheats), grade, compare and verify."""
    from agentbench.cli.output import print_result

    # With --json, stdout is only for the document.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        result, code = _run_demo(workers, sandbox, out)
    if as_json and result is not None:
        print_result(result, as_json=True)
    sys.exit(code)


def _run_demo(workers: int, sandbox: str, out: Path) -> tuple[StudyResult | None, int]:
    """Print every step as it happens. Return the result, if the tasks are valid, and the exit code."""
    from agentbench.cli.launch import run_rows
    from agentbench.contract.suite import load_suite
    from agentbench.execution.config import CliChoices
    from agentbench.execution.lab import Lab
    from agentbench.execution.plan import make_plan
    from agentbench.execution.request import RunRequest

    click.echo(DURATION)
    tasks = load_suite("demo", Path("tasks")).tasks
    with Lab(sandbox=sandbox) as lab:
        _title(
            "1. Validating tasks: the baseline must fail and the reference must pass (once; `ab validate-tasks` repeats them)."
        )
        if not _validate(tasks, lab, workers):
            return None, 1
    _title(f"2. Running three agents on six tasks, each in a sandbox without network: {', '.join(METHODS)}.")
    request = RunRequest("demo", "", (), (), CliChoices(), workers=workers, sandbox=sandbox, out=out)
    rows = make_plan([(task, _methods(task)) for task in tasks])
    result = run_rows(rows, request, resumable=False)
    if result.exit_code:
        return result, result.exit_code
    records = list(result.records())
    _title("3. Verdicts, each from a fresh sandbox that the agent never touched.")
    _matrix(tasks, records)
    _title("4. How the cheater was caught.")
    _caught([record for record in records if record.variant == "cheater"])
    runs = {Path(path).name.split("__")[2]: path for path in result.runs}
    _title("5. Verifying hash chains, digests and verdicts of the run directories.")
    ok = _verify(result.runs)
    _title("6. Comparing agents (B with A) on the same tasks. Six differing tasks decide, three do not.")
    for a, b in COMPARED:
        click.echo(f"  {b} (B) with {a} (A)")
        _compare(runs[a], runs[b])
    _title("7. HTML report, opens in a browser without network.")
    click.echo(f"  {_page(result.runs, runs['partial'], runs['reference'])}")
    cheated = any(record.result.passed for record in records if record.variant == "cheater")
    click.echo(f"\nDetails: {called_as()} show {shell_quoted(runs['cheater'])} --task toy-median")
    return result, int(cheated or not ok)


def _title(text: str) -> None:
    click.echo(f"\n{text}")
    sys.stdout.flush()


def _methods(task: LoadedTask) -> list[Configuration]:
    """Configure the agents of the demo."""
    from dataclasses import replace
    from importlib.resources import files

    from agentbench.execution.config import CliChoices, resolve

    agents = Path(str(files("agentbench") / "demo" / "agents"))
    choices = {
        "partial": CliChoices(agent="scripted", script=agents / "partial"),
        "reference": CliChoices(agent="reference"),
        "cheater": CliChoices(
            agent="command", agent_command='sh "$AB_AGENT_FILES/cheat.sh"', agent_files=agents / "cheater"
        ),
    }
    return [replace(resolve(task, None, choices[name]), variant=name) for name in METHODS]


def _validate(tasks: Sequence[LoadedTask], lab: Lab, workers: int) -> bool:
    from agentbench.core.text import printable
    from agentbench.execution.validation import validate_suite

    results = validate_suite(
        tasks, lab, repeats=1, workers=workers, report=lambda line: click.echo(f"  {line}", err=True)
    )
    for result in results:
        state = "valid    " if result.valid else "NOT VALID"
        click.echo(printable(f"  {state} {result.task_id}: {result.why}"))
    return all(result.valid for result in results)


def _matrix(tasks: Sequence[LoadedTask], records: Sequence[AttemptRecord]) -> None:
    verdicts = {(record.task_id, record.variant): _short(record) for record in records}
    width = max(len(task.id) for task in tasks)
    click.echo((f"  {'':{width}}  " + "  ".join(f"{name:17}" for name in METHODS)).rstrip())
    for task in tasks:
        cells = "  ".join(f"{verdicts.get((task.id, name), '-'):17}" for name in METHODS)
        click.echo(f"  {task.id:{width}}  {cells}".rstrip())


def _short(record: AttemptRecord) -> str:
    if record.result.passed:
        return "PASS"
    return str(record.result.failure_reason)


def _caught(records: Sequence[AttemptRecord]) -> None:
    from agentbench.core.text import printable
    from agentbench.record.headline import headline

    for record in sorted(records, key=lambda record: record.task_id):
        click.echo(f"  {record.task_id}: {TRICKS.get(record.task_id, 'cheat')}")
        click.echo(printable(f"    {headline(record)}"))


def _compare(a: Path, b: Path) -> None:
    from agentbench.core.text import printable
    from agentbench.reports.paired import compare_sides
    from agentbench.reports.paired_decision import decision
    from agentbench.reports.sources import open_sides

    report = compare_sides(*open_sides(str(a), str(b)))
    click.echo(f"    {decision(report)}")
    for note in report.comparison.notes:
        click.echo(f"    - {note}")
    for flip in report.flips:
        click.echo(printable(f"    {flip.task}: {'; '.join(flip.headlines_a)} → {'; '.join(flip.headlines_b)}"))
    click.echo(f"    Details: {called_as()} report paired {shell_quoted(a)} {shell_quoted(b)}")


def _page(runs: Sequence[Path], a: Path, b: Path) -> Path:
    """Write the HTML report of all runs and a comparison into B's folder: in `--out` it would lie among the runs."""
    from agentbench.record.naming import PAGES
    from agentbench.reports.html.page import write_page
    from agentbench.reports.paired import compare_sides
    from agentbench.reports.sources import open_run, open_sides

    comparison = compare_sides(*open_sides(str(a), str(b)))
    return write_page(Path(b) / PAGES, [open_run(path) for path in runs], comparison=comparison)


def _verify(runs: Sequence[Path]) -> bool:
    from agentbench.cli.verify import headline
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute

    ok = True
    for path in runs:
        report = verify_run(path, recompute=recompute)
        ok &= report.ok
        click.echo(f"  {headline(report)}  {path}")
    return ok
