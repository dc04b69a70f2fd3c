"""`ab pilot`: pre-registered, staged studies."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import FOLDER, format_option, json_option, tasks_dir_option
from agentbench.cli.pilot_run import run_command
from agentbench.core.text import shell_quoted

EPILOG = """\b
Examples:
  ab pilot init study --suite demo --method baseline --method context_packer
  ab pilot plan study
  ab pilot freeze study
  ab pilot run study --workers 2
  ab pilot status study
  ab pilot report study --format html

Nothing runs before `freeze`. `ab verify DIR` recomputes the plan and every decision.
"""
INIT_EPILOG = """\b
Examples:
  ab pilot init study --suite demo --method baseline --method context_packer
  ab pilot init study --suite mine --tasks-dir ./tasks --method variants/mine.yaml --stratum kind
"""
PLAN_EPILOG = """\b
Examples:
  ab pilot plan study
  ab pilot plan study --json
"""
FREEZE_EPILOG = """\b
Examples:
  ab pilot freeze study
  ab pilot freeze study --sign ada
  ab pilot freeze study --amend --reason "price of the model changed"

A second freeze is refused. An amendment plans again from pilot.yaml and links the new registration to the old one; it
must keep every attempt that was made.
"""
REMOVE_EPILOG = """\b
Examples:
  ab pilot remove study --task fix-rounding --cause flaky --reason "depends on the clock" --by "A. Reviewer"

The claim is checked against the flake screen and the recorded attempts, and refused (exit code 1) if they do not support
it. A removed task is not replaced.
"""
STATUS_EPILOG = """\b
Examples:
  ab pilot status study
  ab pilot status study --json
"""
REPORT_EPILOG = """\b
Examples:
  ab pilot report study
  ab pilot report study --format html

Every format also writes audit.csv, rubric.csv and comparisons.csv into the folder of the pilot.
"""


@click.group(epilog=EPILOG)
def command() -> None:
    """Plan, register and carry out a staged study."""


@command.command("init", epilog=INIT_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--suite", "suites", multiple=True, required=True, help="Suite whose tasks take part; can be repeated.")
@tasks_dir_option
@click.option(
    "--method",
    "methods",
    multiple=True,
    required=True,
    help="Method under test: a variant (name or file), or the agent noop, reference or scripted; can be repeated.",
)
@click.option("--stratum", "strata", multiple=True, help="Key of `strata` to stratify by; can be repeated.")
def init_command(
    folder: Path, *, suites: tuple[str, ...], tasks_dir: Path, methods: tuple[str, ...], strata: tuple[str, ...]
) -> None:
    """Write a commented pilot.yaml."""
    from agentbench.contract.suite import suite_folder
    from agentbench.pilot.design.template import NewPilot, new_pilot

    for name in suites:
        suite_folder(name, tasks_dir)
    path = new_pilot(folder, NewPilot(suites, methods, tasks_dir, strata))
    click.echo(f"{path}: edit it, then run `ab pilot plan {shell_quoted(folder)}`")


@command.command("plan", epilog=PLAN_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@json_option
def plan_command(folder: Path, *, as_json: bool) -> None:
    """Write the randomised plan, the power analysis and the cost projection.

    Refuses a design that is unbalanced or that cannot be analysed.
    """
    from agentbench.pilot.decisions.criteria import power_criterion
    from agentbench.pilot.design.pilot_design import read_design, require_not_frozen, write_plan_files
    from agentbench.pilot.design.power_analysis import power_json
    from agentbench.pilot.pilot_state import require_folder, stage_counts

    require_folder(folder)
    require_not_frozen(folder)
    design = read_design(folder)
    power = write_plan_files(design)
    counts, projection = stage_counts(design.lines), design.projection
    total = design.pilot.budgets.total
    if as_json:
        value = {
            "pilot": str(folder),
            "attempts": len(design.lines),
            "stages": dict(counts),
            "power": power_json(power),
            "projected_cost": projection.total,
            "budget": total,
        }
        click.echo(json.dumps(value, indent=2))
        return
    stages = ", ".join(f"{stage} {count}" for stage, count in counts.items())
    tasks, methods = len(design.sample.tasks), len(design.pilot.names)
    click.echo(f"{len(design.lines)} attempts: {tasks} tasks, {methods} methods and baselines ({stages})")
    criterion = power_criterion(power)
    click.echo(f"{'Power is sufficient' if criterion.met else 'UNDERPOWERED'}: {criterion.evidence}")
    click.echo(f"Projected cost (a model, not spending): {projection.total:.4g} of the budget of {total:g}")
    if projection.total > total:
        click.echo("warning: the projected cost exceeds the total budget, which would stop the pilot", err=True)
    if not criterion.met:
        limit = "Stage full cannot start with this plan: plan again after editing pilot.yaml (tasks, `stages`, `power`)"
        click.echo(f"{limit}, or freeze it for the stages before.")
    click.echo(f"Next: ab pilot freeze {shell_quoted(folder)}")


@command.command("freeze", epilog=FREEZE_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--amend", is_flag=True, help="Replace the registration by a new one that is linked to it.")
@click.option("--reason", default="", help="Why the pilot is amended (with --amend).")
@click.option("--sign", "key", metavar="KEY", help="Sign the registration with this key: its name, or a key file.")
@json_option
def freeze_command(folder: Path, *, amend: bool, reason: str, key: str | None, as_json: bool) -> None:
    """Register the pilot: freeze its plan, tasks, methods, weights, thresholds and prices by digest."""
    from agentbench.cli.keys import signing_key
    from agentbench.pilot.lifecycle.freeze import amend_pilot, freeze_pilot
    from agentbench.pilot.lifecycle.lock import pilot_lock
    from agentbench.pilot.pilot_state import require_folder

    if amend != bool(reason.strip()):
        raise click.UsageError("--amend and --reason need each other.")
    require_folder(folder)
    signer = None if key is None else signing_key(key)
    with pilot_lock(folder):
        registration = amend_pilot(folder, reason.strip(), signer) if amend else freeze_pilot(folder, signer)
    if as_json:
        click.echo(json.dumps(registration.model_dump(mode="json"), indent=2))
        return
    click.echo(f"FROZEN: registration {registration.number}, {registration.registration_id}")
    frozen = f"{len(registration.tasks)} tasks, {len(registration.methods)} methods and baselines"
    click.echo(f"  {frozen}, harness {registration.harness_version}")
    if signer is not None:
        click.echo(f"  signed with {signer.public.name} ({signer.public.key_id})")
    click.echo(f"Next: ab pilot run {shell_quoted(folder)}")


command.add_command(run_command)


@command.command("remove", epilog=REMOVE_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--task", "task_id", required=True, metavar="ID", help="Task to remove.")
@click.option(
    "--cause", type=click.Choice(["flaky", "invalid_oracle", "setup"]), required=True, help="Why it is invalid."
)
@click.option("--reason", required=True, help="The reason in words.")
@click.option("--by", required=True, metavar="WHO", help="Who decided it.")
@json_option
def remove_command(folder: Path, *, task_id: str, cause: str, reason: str, by: str, as_json: bool) -> None:
    """Remove a task that is objectively invalid. The claim is checked against the records."""
    from dataclasses import asdict

    from agentbench.core.text import printable
    from agentbench.pilot.decisions.removals import RemovalCause
    from agentbench.pilot.lifecycle.lock import pilot_lock
    from agentbench.pilot.lifecycle.remove_task import remove_task
    from agentbench.pilot.pilot_state import require_folder

    require_folder(folder)
    with pilot_lock(folder):
        removal = remove_task(folder, task_id, RemovalCause(cause), reason=reason, by=by)
    if as_json:
        click.echo(json.dumps(asdict(removal), indent=2))
    else:
        click.echo(printable(f"REMOVED {removal.task_id}: {removal.cause}: {removal.evidence}"))


@command.command("status", epilog=STATUS_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@json_option
def status_command(folder: Path, *, as_json: bool) -> None:
    """Show stages, criteria with their evidence, spending, stopping rules and what comes next."""
    from agentbench.core.text import printable
    from agentbench.pilot.report.status import pilot_status, status_json, status_lines

    status = pilot_status(folder)
    if as_json:
        click.echo(json.dumps(status_json(status), indent=2))
        return
    for line in status_lines(status):
        click.echo(printable(line))


@command.command("report", epilog=REPORT_EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@format_option(html="is written into the folder of the pilot")
@json_option
def report_command(folder: Path, *, form: str, as_json: bool) -> None:
    """Report the results, and write audit.csv, rubric.csv and comparisons.csv."""
    from agentbench.pilot.report.page import write_pilot_page
    from agentbench.pilot.report.results import make_report, write_tables
    from agentbench.pilot.report.text import report_csv, report_json, report_markdown

    report = make_report(folder)
    write_tables(report)
    if as_json or form == "json":
        click.echo(json.dumps(report_json(report), indent=2, allow_nan=False))
    elif form == "html":
        click.echo(str(write_pilot_page(report)))
    else:
        click.echo(report_csv(report) if form == "csv" else report_markdown(report), nl=False)
