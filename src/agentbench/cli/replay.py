"""`ab replay RUN`: acceptance again on the recorded patches, compared check by check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import json_option

if TYPE_CHECKING:
    from agentbench.record.schema import AttemptRecord
    from agentbench.run.replay import Replay

EXIT_UNDECIDED = 2

EPILOG = """\b
Examples:
  ab replay artifacts/runs/RUN
  ab replay artifacts/runs/RUN --task toy-median --json

The first line is the decision: AGREES, DIFFERS with the first difference, or UNAVAILABLE when R or the environment cannot be
had here. Exit code 0, 1 and 2. Attempts that ended before acceptance have nothing to replay.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--task", "task_id", help="Only attempts of this task.")
@click.option(
    "--sandbox",
    type=click.Choice(["recorded", "auto", "bwrap", "docker"]),
    default="recorded",
    show_default=True,
    help="Where to grade: in the kind of sandbox that was used then, or in another.",
)
@json_option
def command(run: Path, task_id: str | None, sandbox: str, as_json: bool) -> None:
    """Put the recorded patches on the same repositories and run acceptance again.

    Needs no model and no task folder: it works on a run directory that was copied to another machine.
    """
    from agentbench.record.run_directory import RunDirectory
    from agentbench.run.lab import Lab
    from agentbench.run.replay import replay_run

    directory = RunDirectory.open(run)
    chosen = _recorded(directory.path) if sandbox == "recorded" else sandbox

    def tell(record: AttemptRecord) -> None:
        click.echo(f"replaying {record.task_id} · {record.variant} · repeat {record.repeat}", err=True)

    with Lab(sandbox=chosen) as lab:
        replays = tuple(replay_run(directory, lab, task_id=task_id, report=tell))
    click.echo(_as_json(run, replays) if as_json else _as_text(replays))
    code = _exit_code(replays)
    if code:
        raise click.exceptions.Exit(code)


def _recorded(path: Path) -> str:
    """The backend that the run's attempts were made on; `auto` where they do not say, or where each task had its own."""
    from agentbench.core.errors import RecordError
    from agentbench.record.manifest import read_manifest

    found = set()
    for file in path.glob("tasks/*/manifest.json"):
        try:
            found.add(read_manifest(file).protocol_manifest.planned.sandbox.backend)
        except RecordError:
            continue
    return found.pop() if len(found) == 1 else "auto"


def _exit_code(replays: tuple[Replay, ...]) -> int:
    if any(one.agreement == "differs" for one in replays):
        return 1
    return EXIT_UNDECIDED if any(one.agreement == "unavailable" for one in replays) else 0


def _headline(replays: tuple[Replay, ...]) -> str:
    for one in replays:
        if one.agreement == "differs":
            return f"DIFFERS {_name(one)}: {one.differences[0]}"
    for one in replays:
        if one.agreement == "unavailable":
            return f"UNAVAILABLE {_name(one)}: {one.why}"
    again = sum(one.agreement == "agrees" for one in replays)
    checks = sum(len(one.checks) for one in replays)
    return f"AGREES {again} attempt{'' if again == 1 else 's'} replayed, {checks} outcomes compared"


def _name(one: Replay) -> str:
    repeat = f" · repeat {one.record.repeat}" if one.record.repeat > 1 else ""
    return f"{one.record.task_id} · {one.record.variant}{repeat}"


def _as_text(replays: tuple[Replay, ...]) -> str:
    from agentbench.core.text import printable

    lines = [_headline(replays)]
    for one in replays:
        why = f" ({one.why})" if one.why else ""
        lines.append(f"  {_name(one)}: {one.agreement}, environment {one.environment}{why}")
        lines += [f"    {difference}" for difference in one.differences]
    return "\n".join(printable(line) for line in lines)


def _as_json(run: Path, replays: tuple[Replay, ...]) -> str:
    value = {
        "run_dir": str(run.absolute()),
        "agrees": _exit_code(replays) == 0,
        "attempts": [
            {
                "task_id": one.record.task_id,
                "variant": one.record.variant,
                "repeat": one.record.repeat,
                "attempt_id": one.record.attempt_id,
                "agreement": one.agreement,
                "environment": one.environment,
                "why": one.why,
                "checks": [
                    {"id": check.check_id, "then": check.then, "now": check.now, "difference": check.difference or None}
                    for check in one.checks
                ],
            }
            for one in replays
        ],
    }
    return json.dumps(value, ensure_ascii=True, indent=2)
