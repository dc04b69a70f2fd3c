"""`ab task audit`: how often does a task's oracle accept a wrong patch?"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option, workers_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.acceptance.mutation.audit import Audit
    from agentbench.contract.load import LoadedTask

EPILOG = """\b
Examples:
  ab task audit tasks/mine/fix-median --workers 2
  ab task audit tasks/mine --variants 40 --min-kill-rate 0.9 --json
"""


@click.command("audit", epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--variants", type=click.IntRange(1, 1000), default=20, show_default=True, help="Wrong variants per task."
)
@click.option(
    "--min-kill-rate", type=click.FloatRange(0, 1), help="Exit 1 when a task's oracle refuses a smaller share."
)
@workers_option
@sandbox_option
@fresh_option
@json_option
def command(
    *,
    paths: tuple[Path, ...],
    variants: int,
    min_kill_rate: float | None,
    workers: int,
    sandbox: str,
    fresh_setup: bool,
    as_json: bool,
) -> None:
    """Measure an oracle: no work must fail, the reference must pass, wrong variants of it should fail.

    PATHS are task folders or folders of them. What survives is shown as a diff against the reference: it is a hole in the
    oracle, or a variant that happens to do the same. Exit 1 when no work passes or the reference does not, or when too few
    variants are refused; 2 when --min-kill-rate has no variant to go by.
    """
    from agentbench.core.text import printable
    from agentbench.run.lab import Lab
    from agentbench.run.validation import audit_tasks

    tasks = [task for path in paths for task in _tasks(path)]

    def tell(line: str) -> None:
        if not as_json:
            click.echo(printable(line), err=True)

    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        found = audit_tasks(tasks, lab, wanted=variants, workers=workers, report=tell)
    if as_json:
        click.echo(json.dumps({"tasks": [_as_json(one) for one in found]}))
    else:
        for one in found:
            _show(one)
    sys.exit(_exit_code(found, min_kill_rate))


def _exit_code(found: Sequence[Audit], least: float | None) -> int:
    """1 when an oracle is not sound or too weak; 2 when there is nothing to tell how strong it is by."""
    rates = [one.kill_rate for one in found if one.sound] if least is not None else []
    if not all(one.sound for one in found) or any(rate is not None and rate < (least or 0.0) for rate in rates):
        return 1
    untold = [one.task_id for one in found if one.kill_rate is None] if least is not None else []
    if untold:
        click.echo(f"error: --min-kill-rate: no wrong variant of {', '.join(untold[:10])} was decided", err=True)
        return 2
    return 0


def _tasks(path: Path) -> list[LoadedTask]:
    from agentbench.contract.load import load_task
    from agentbench.core.errors import InputError

    if path.is_file() or (path / "task.yaml").exists():
        return [load_task(path)]
    folders = sorted(one.parent for one in path.glob("*/task.yaml"))
    if not folders:
        raise InputError(f"{path}: neither a task nor a folder of tasks", remedy="give a folder that holds a task.yaml")
    return [load_task(one) for one in folders]


def _as_json(one: Audit) -> dict[str, object]:
    return {
        **asdict(one),
        "sound": one.sound,
        "killed": one.killed,
        "survived": len(one.survivors),
        "kill_rate": one.kill_rate,
        "operators": {
            name: {"killed": killed, "decided": total} for name, (killed, total) in one.by_operator().items()
        },
    }


def _show(one: Audit) -> None:
    from agentbench.core.text import printable

    verdict = "sound" if one.sound else "NOT SOUND"
    rate = (
        "" if one.kill_rate is None else f", refuses {one.killed} of {one.killed + len(one.survivors)} wrong variants"
    )
    click.echo(printable(f"{one.task_id}: {verdict} (no work {one.noop}, reference {one.reference}){rate}"))
    if not one.sound and one.why:
        click.echo(printable(f"  {one.why}"))
    for name, (killed, total) in one.by_operator().items():
        click.echo(f"  {name:<22} {killed:>3} of {total:>3} refused")
    undecided = sum(tried.result == "error" for tried in one.tried)
    if undecided:
        click.echo(f"  {undecided} could not be decided")
    for note in one.notes:
        click.echo(f"  note: {note}")
    for tried in one.survivors:
        click.echo(
            printable(
                f"  accepted though wrong, or the same in effect: {tried.operator} at {tried.path}:{tried.line}: {tried.what}"
            )
        )
        for line in tried.diff.splitlines():
            click.echo(f"    {printable(line)}")
