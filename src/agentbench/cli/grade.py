"""`ab grade`: grade existing patches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from agentbench.cli.options import (
    FILE,
    EvidenceOptions,
    evidence_options,
    fail_on_option,
    fresh_option,
    json_option,
    out_option,
    sandbox_option,
    store_options,
    workers_option,
)
from agentbench.cli.selection import SelectionOptions, select_tasks, selection_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentbench.cli.fail_on import Condition
    from agentbench.cli.selection import Selected
    from agentbench.contract.load import LoadedTask
    from agentbench.core.canonical import Json
    from agentbench.execution.predictions import Prediction
    from agentbench.execution.study import StudyResult

EPILOG = """\b
Examples:
  ab grade --task tasks/mine/bug --patch fix.patch
  ab grade --task tasks/mine/bug --patch fix.patch --fail-on 'passed<1'
  ab grade --task tasks/mine --predictions preds.jsonl --workers 2 --json
  ab grade --suite mine --task 'fix-*' --predictions preds.jsonl
  ab grade --task tasks/mine --predictions samples.jsonl --repeats-allowed

Two predictions of one method for one task are refused unless --repeats-allowed is given.
"""


class GradeOptions(SelectionOptions, EvidenceOptions):
    """Parameters of the shared groups of options."""


@click.command(epilog=EPILOG)
@selection_options
@click.option("--patch", "patch_file", type=FILE, help="Unified diff, or - for stdin.")
@click.option(
    "--predictions", type=FILE, help="JSON lines of {instance_id, model_patch}, or a JSON object keyed by id."
)
@click.option("--repeats-allowed", is_flag=True, help="Grade several predictions for one task as repeats.")
@click.option("--report", "report_file", type=FILE, help="Write a SWE-bench report (with --predictions).")
@evidence_options
@workers_option
@sandbox_option
@fresh_option
@out_option
@fail_on_option
@json_option
def command(
    *,
    patch_file: Path | None,
    predictions: Path | None,
    repeats_allowed: bool,
    report_file: Path | None,
    workers: int,
    sandbox: str,
    fresh_setup: bool,
    out: Path,
    fail_on: str | None,
    as_json: bool,
    **options: Unpack[GradeOptions],
) -> None:
    """Grade patches, each in a fresh sandbox on the task's base repository."""
    from agentbench.cli.launch import exit_code, run_rows
    from agentbench.cli.output import print_result
    from agentbench.execution.config import CliChoices
    from agentbench.execution.predictions import INSTANCES, prediction_rows
    from agentbench.execution.request import RunRequest

    if (patch_file is None) == (predictions is None):
        raise click.UsageError("Give either --patch or --predictions.")
    if report_file is not None:
        _check_report_file(report_file, predictions)
    conditions = _conditions(fail_on)
    selected = select_tasks(options)
    tasks = selected.tasks
    if predictions is not None:
        wanted = _predictions(
            predictions, selected, repeats_allowed=repeats_allowed, one_method=report_file is not None
        )
    else:
        assert patch_file is not None  # noqa: S101 - checked above
        wanted = [_single_patch(tasks, patch_file)]
    request = RunRequest(
        suite=selected.suite,
        tasks_dir="" if selected.paths else str(selected.tasks_dir.absolute()),
        task_paths=tuple(str(path.absolute()) for path in selected.paths),
        selection=selected.record,
        variants=(),
        choices=CliChoices(),
        workers=workers,
        sandbox=sandbox,
        fresh_setup=fresh_setup,
        out=out,
        store=store_options(options, out),
    )
    rows = prediction_rows(tasks, wanted, options["evidence"] or "redacted")
    instances = [task.id for task in tasks]
    link: dict[str, Json] = {INSTANCES: list(instances)} if predictions is not None else {}
    result = run_rows(rows, request, link=link, as_json=as_json, resumable=False)
    if report_file is not None:
        _write_report(report_file, result, instances)
    print_result(result, as_json=as_json)
    if repeats_allowed and not as_json:
        _print_pass_k(result)
    sys.exit(exit_code(result, conditions))


def _single_patch(tasks: Sequence[LoadedTask], patch_file: Path) -> Prediction:
    """Read the patch of `--patch`.

    Raises:
        InputError: several tasks were selected, or the file cannot be read.
    """
    from agentbench.core.errors import InputError

    if len(tasks) != 1:
        raise InputError(f"--patch needs exactly one task, got {len(tasks)}; use --predictions for several")
    prediction = _read(tasks[0].id, patch_file)
    if not prediction.patch.strip():
        click.echo("warning: the patch is empty, so the base repository is graded", err=True)
    return prediction


def _check_report_file(report_file: Path, predictions: Path | None) -> None:
    from agentbench.core.errors import InputError

    if predictions is None:
        raise click.UsageError("--report needs --predictions.")
    if not report_file.absolute().parent.is_dir():
        msg = f"--report {report_file}: folder {report_file.parent} does not exist"
        raise InputError(msg, remedy=f"mkdir -p {report_file.parent}")


def _predictions(file: Path, selected: Selected, *, repeats_allowed: bool, one_method: bool) -> list[Prediction]:
    """Read the predictions for the selected tasks."""
    from agentbench.core.errors import InputError
    from agentbench.execution.predictions import read_predictions, refuse_repeats, refuse_several_methods

    wanted = read_predictions(file)
    if not wanted:
        raise InputError(f"{file} has no predictions")
    if not repeats_allowed:
        refuse_repeats(wanted)
    if one_method:
        refuse_several_methods(wanted)
    return _of_selected(wanted, selected)


def _conditions(fail_on: str | None) -> tuple[Condition, ...]:
    if fail_on is None:
        return ()
    from agentbench.cli.fail_on import parse

    return parse(fail_on)


def _of_selected(predictions: list[Prediction], selected: Selected) -> list[Prediction]:
    """Leave out predictions for tasks that were not selected. Those for unknown tasks stay, to be refused later."""
    from agentbench.core.errors import InputError

    left_out = {task.id for task in selected.available} - {task.id for task in selected.tasks}
    kept = [prediction for prediction in predictions if prediction.task_id not in left_out]
    if not kept:
        raise InputError(f"no predictions for the tasks selected by {selected.selection}")
    return kept


def _print_pass_k(result: StudyResult) -> None:
    """Print pass@k of every method whose tasks have several predictions."""
    from agentbench.reports.number_format import percent
    from agentbench.reports.sources import open_run
    from agentbench.reports.summary import summarise

    for path in result.runs:
        run = open_run(path)
        for repeats in summarise(run).pass_k:
            of_tasks = f"{repeats.tasks} task{'' if repeats.tasks == 1 else 's'}"
            method = run.rows[0].variant
            click.echo(
                f"{method}: pass@{repeats.k} {percent(repeats.any_of)}, pass^{repeats.k} {percent(repeats.all_of)} ({of_tasks})"
            )


def _write_report(path: Path, result: StudyResult, instances: list[str]) -> None:
    import json

    from agentbench.authoring.formats.swebench import report
    from agentbench.core.errors import InputError

    try:
        path.write_text(json.dumps(report(list(result.records()), instances), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write --report {path}: {error.strerror}") from None


def _read(task_id: str, path: Path) -> Prediction:
    from agentbench.core.errors import InputError
    from agentbench.execution.predictions import read_patch

    try:
        if str(path) == "-":
            return read_patch(task_id, sys.stdin.buffer)
        with path.open("rb") as stream:
            return read_patch(task_id, stream)
    except OSError as error:
        raise InputError(f"cannot read patch {path}: {error.strerror}") from None
