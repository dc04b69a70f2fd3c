"""`ab pilot run`: carry out the next stage."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.notify import announcer, notify_option
from agentbench.cli.options import FOLDER, executor_option, json_option, workers_option
from agentbench.core.text import shell_quoted

if TYPE_CHECKING:
    from agentbench.pilot.decisions.decision_log import StageDecision
    from agentbench.pilot.lifecycle.run_stage import StageRun

EPILOG = """\b
Examples:
  ab pilot run study --workers 2
  ab pilot run study --stage feasibility

Carries the next stage out, or continues it after an interruption. Exit code 1 if a criterion is not met or a stopping
rule ended the pilot, 2 if something frozen has changed.
"""


@click.command("run", epilog=EPILOG)
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--stage", type=click.Choice(["feasibility", "limited", "full"]), help="The stage that must come next.")
@workers_option
@executor_option
@notify_option
@json_option
def run_command(
    folder: Path, *, stage: str | None, workers: int, executor: str, ray_address: str, as_json: bool
) -> None:
    """Carry out the next stage in the order of the plan."""
    from agentbench.execution.executor import open_executor
    from agentbench.execution.executor_options import ExecutorOptions
    from agentbench.pilot.lifecycle.lock import pilot_lock
    from agentbench.pilot.lifecycle.run_stage import prepare_stage
    from agentbench.pilot.pilot_state import require_folder

    require_folder(folder)
    options = ExecutorOptions(executor, workers, ray_address)
    open_executor(options)
    with pilot_lock(folder):
        run = prepare_stage(folder, stage, options)
        sys.exit(_run_stage(run, as_json=as_json))


def _run_stage(run: StageRun, *, as_json: bool) -> int:
    from agentbench.cli.launch import execute
    from agentbench.cli.progress import Progress
    from agentbench.core.text import printable
    from agentbench.pilot.decisions.efficacy import RULE as EFFICACY
    from agentbench.pilot.report.status import frozen_status, status_json

    def report(line: str) -> None:
        if not as_json:
            click.echo(printable(line), err=True)

    decision = run.enter(report)
    if decision.met:
        if not as_json:
            _print_decision(decision, err=True)
        progress = Progress(quiet=as_json)
        try:
            with run.open(progress) as study:
                execute(study, progress, quiet=True, resumable=False)
        except KeyboardInterrupt:
            click.echo(f"To continue: ab pilot run {shell_quoted(run.state.folder)}", err=True)
            raise
        decision = run.close()
    held = bool(decision.met) or decision.rule == EFFICACY
    announcer().stage_ended(run.state.folder, decision.stage, decision_headline(decision), held=held)
    if as_json:
        click.echo(json.dumps({"decision": decision.as_json(), **status_json(frozen_status(run.state))}, indent=2))
    else:
        _print_decision(decision)
        click.echo(f"Next: {frozen_status(run.state).following}")
    return 0 if held else 1


def _print_decision(decision: StageDecision, *, err: bool = False) -> None:
    from agentbench.core.text import printable
    from agentbench.pilot.report.status import criterion_lines

    click.echo(printable(decision_headline(decision)), err=err)
    for line in criterion_lines(decision.criteria):
        click.echo(printable(f"  {line}"), err=err)
    for attempt in decision.evidence:
        click.echo(printable(f"  attempt {attempt}"), err=err)


def decision_headline(decision: StageDecision) -> str:
    """Return a decision in one line."""
    if decision.kind == "stop":
        return f"STOPPED in stage {decision.stage} by rule {decision.rule}: {decision.why}"
    words = {
        ("entry", True): "may start",
        ("entry", False): "MAY NOT START",
        ("exit", True): "is complete",
        ("exit", False): "IS NOT COMPLETE",
    }
    return f"Stage {decision.stage} {words[decision.kind, bool(decision.met)]}"
