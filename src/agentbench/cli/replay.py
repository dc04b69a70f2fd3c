"""`ab replay`: grade recorded patches again and compare the outcomes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import FILE, RUN, SandboxType, json_option
from agentbench.cli.output import attempt_label

if TYPE_CHECKING:
    from agentbench.execution.originals import OriginalsReader
    from agentbench.execution.replay import Replay
    from agentbench.record.run_directory import RunDirectory
    from agentbench.record.schema import AttemptRecord

EXIT_UNDECIDED = 2

EPILOG = """\b
Examples:
  ab replay artifacts/runs/RUN
  ab replay artifacts/runs/RUN --task toy-median --json

The first line is AGREES (exit code 0), DIFFERS with the first difference (1), or UNAVAILABLE if the base repository,
the environment or the decoy tests are not available (2). Attempts that ended before grading, and interrupted ones, have
nothing to compare and are left out; if no attempt is left, the line begins with NOTHING TO COMPARE (2).
If the run directory was altered, the line begins with ALTERED and the exit code is 1.
"""


@click.command(epilog=EPILOG)
@click.argument("run", type=RUN)
@click.option("--task", "task_id", help="Replay only attempts at this task.")
@click.option(
    "--sandbox",
    type=SandboxType("recorded"),
    default="recorded",
    show_default=True,
    help="Sandbox backend for grading; recorded uses that of the run.",
)
@click.option(
    "--key", type=FILE, help="Key of the restricted store, for text that the run does not contain (see `ab vault`)."
)
@json_option
def command(run: Path, task_id: str | None, sandbox: str, key: Path | None, as_json: bool) -> None:
    """Grade the recorded patches again on the same base repositories.

    Needs neither a model nor the task folder, so it works on a run directory copied from another machine. A run that
    keeps digests instead of text needs the key of its restricted store; the access is logged.
    """
    from agentbench.core.errors import InputError, RecordError
    from agentbench.core.text import printable
    from agentbench.execution.lab import Lab
    from agentbench.execution.replay import replay_run
    from agentbench.record.audit import verify_run
    from agentbench.record.recompute import recompute
    from agentbench.record.run_directory import RunDirectory

    audit = verify_run(run, recompute=recompute)
    altered = str(audit.problems[0]) if audit.decision == "altered" else ""

    def show(record: AttemptRecord) -> None:
        click.echo(f"Replaying {record.task_id} · {record.variant} · repeat {record.repeat}", err=True)

    try:
        directory = RunDirectory.open(run)
        originals = _originals(directory, key)
        with Lab(sandbox=recorded_backend(run) if sandbox == "recorded" else sandbox) as lab:
            replays = tuple(replay_run(directory, lab, task_id=task_id, originals=originals, report=show))
    except (InputError, RecordError) as error:
        if not altered:
            raise
        unavailable = f"{_mark(altered)}UNAVAILABLE: {error.message}"
        click.echo(_as_json(run, (), altered) if as_json else printable(unavailable))
        raise click.exceptions.Exit(1) from None
    click.echo(_as_json(run, replays, altered) if as_json else _as_text(replays, altered))
    code = 1 if altered else _exit_code(replays)
    if code:
        raise click.exceptions.Exit(code)


def _originals(run: RunDirectory, key: Path | None) -> OriginalsReader | None:
    """Open the restricted store with a key, or with the passphrase in the environment if that protects it."""
    import os

    from agentbench.execution.evidence import PASSPHRASE

    evidence = run.meta.get("evidence")
    by_passphrase = isinstance(evidence, dict) and evidence.get("passphrase") and os.environ.get(PASSPHRASE)
    if key is None and not by_passphrase:
        return None
    from agentbench.cli.vault import open_originals

    return open_originals(run.path, "replay", key)


def recorded_backend(path: Path) -> str:
    """Return the backend of the run's attempts; `auto` if unknown or different between tasks."""
    from agentbench.core.errors import RecordError
    from agentbench.record.manifest import read_manifest

    backends = set()
    for file in path.glob("tasks/*/manifest.json"):
        try:
            backends.add(read_manifest(file).protocol_manifest.planned.sandbox.backend)
        except RecordError:
            continue
    return backends.pop() if len(backends) == 1 else "auto"


def _exit_code(replays: tuple[Replay, ...]) -> int:
    if any(replay.agreement == "differs" for replay in replays):
        return 1
    decided = any(replay.agreement == "agrees" for replay in replays)
    return 0 if decided and not any(replay.agreement == "unavailable" for replay in replays) else EXIT_UNDECIDED


def _headline(replays: tuple[Replay, ...]) -> str:
    for replay in replays:
        if replay.agreement == "differs":
            return f"DIFFERS: {_name(replay)}: {replay.differences[0]}"
    for replay in replays:
        if replay.agreement == "unavailable":
            return f"UNAVAILABLE: {_name(replay)}: {replay.why}"
    from agentbench.reports.number_format import plural

    again = sum(replay.agreement == "agrees" for replay in replays)
    left_out = Counter(replay.why for replay in replays if replay.agreement == "nothing")
    reasons = "; ".join(f"{plural(count, 'attempt')}: {why}" for why, count in left_out.items())
    if not again:
        return f"NOTHING TO COMPARE: {reasons}"
    checks = sum(len(replay.checks) for replay in replays)
    compared = f"AGREES: {plural(again, 'attempt')} replayed, {plural(checks, 'outcome')} compared"
    return f"{compared}; left out {reasons}" if reasons else compared


def _name(replay: Replay) -> str:
    return attempt_label(*replay.record.key)


def _mark(altered: str) -> str:
    return f"ALTERED: {altered}, see `ab verify`. " if altered else ""


def _as_text(replays: tuple[Replay, ...], altered: str) -> str:
    from agentbench.core.text import printable

    lines = [_mark(altered) + _headline(replays)]
    for replay in replays:
        why = f" ({replay.why})" if replay.why else ""
        result = (
            "nothing to compare"
            if replay.agreement == "nothing"
            else f"{replay.agreement}, environment {replay.environment}"
        )
        lines.append(f"  {_name(replay)}: {result}{why}")
        lines += [f"    {difference}" for difference in replay.differences]
        lines += [f"    to fix: {replay.remedy}"] if replay.remedy else []
    return "\n".join(printable(line) for line in lines)


def _as_json(run: Path, replays: tuple[Replay, ...], altered: str) -> str:
    value = {
        "run_dir": str(run.absolute()),
        "altered": altered or None,
        "agrees": _exit_code(replays) == 0 and not altered,
        "attempts": [
            {
                "task_id": replay.record.task_id,
                "variant": replay.record.variant,
                "repeat": replay.record.repeat,
                "attempt_id": replay.record.attempt_id,
                "agreement": replay.agreement,
                "environment": replay.environment,
                "why": replay.why,
                "remedy": replay.remedy or None,
                "checks": [
                    {"id": check.check_id, "then": check.then, "now": check.now, "difference": check.difference or None}
                    for check in replay.checks
                ],
            }
            for replay in replays
        ],
    }
    return json.dumps(value, ensure_ascii=True, indent=2)
