"""Run a study with progress on the terminal, and print its result. Shared by `run`, `run-task`, `grade` and `demo`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.api.execute_study import execute_study
from agentbench.cli.interrupts import graceful_interrupts, saving
from agentbench.cli.notify import announcer
from agentbench.cli.options import RunOptions, store_options
from agentbench.cli.output import print_result, print_resume_command, print_unfinished
from agentbench.cli.progress import Progress
from agentbench.cli.stopping import running_rule
from agentbench.contract.load import LoadedTask
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError
from agentbench.core.problems import Problems
from agentbench.execution.config import CliChoices
from agentbench.execution.open_study import (
    check_study,
    plan_study,
    planned_meta,
    resume_study,
    start_study,
    study_records,
)
from agentbench.execution.plan import PlanRow
from agentbench.execution.request import RunRequest
from agentbench.execution.study import Again, Study, StudyResult
from agentbench.record.run_directory import RunDirectory, study_runs
from agentbench.record.run_state import run_state

if TYPE_CHECKING:
    from agentbench.cli.fail_on import Condition
    from agentbench.signing.keys import SigningKey


def make_request(
    suite: str,
    options: RunOptions,
    choices: CliChoices,
    *,
    tasks_dir: str = "",
    task_paths: tuple[str, ...] = (),
    selection: dict[str, object] | None = None,
    variants: tuple[str, ...] = (),
) -> RunRequest:
    """Build the request from the options of `run` or `run-task`."""
    return RunRequest(
        suite=suite,
        tasks_dir=tasks_dir,
        task_paths=task_paths,
        selection=selection,
        variants=variants,
        choices=choices,
        repeats=options["repeats"],
        seed=options["seed"],
        workers=options["workers"],
        executor=options["executor"],
        ray_address=options["ray_address"],
        sandbox=options["sandbox"],
        fresh_setup=options["fresh_setup"],
        prices=str(options["prices"].absolute()) if options["prices"] else None,
        lenient=options["lenient"],
        judge_model=options["judge_model"],
        judge_repeats=options["judge_repeats"],
        monitors=options["monitors"],
        task_usd=options["task_usd"],
        total_usd=options["total_usd"],
        operator=options["operator"],
        model_patience=options["model_patience"],
        preflight=options["preflight"],
        preflight_wait=options["preflight_wait"],
        out=options["out"],
        store=store_options(options, options["out"]),
    )


def run_or_estimate(tasks: Sequence[LoadedTask], request: RunRequest, options: RunOptions) -> int:
    """Run the request, or with `--dry-run` print its estimate. Return the exit code."""
    from agentbench.cli.dry_run import estimate, print_estimate
    from agentbench.cli.fail_on import parse
    from agentbench.contract.freeze_scenario import notice_of_other_scenario

    as_json = options["as_json"]
    problems = Problems()
    conditions = problems.collect(partial(parse, options["fail_on"])) if options["fail_on"] is not None else ()
    rows = problems.collect(partial(plan_study, tasks, request, Progress(quiet=as_json)))
    problems.raise_all()
    assert rows is not None and conditions is not None  # noqa: S101, PT018 - else there was a problem
    notice = notice_of_other_scenario(tasks)
    if notice:
        click.echo(f"warning: {notice}", err=True)
    signing = run_signing(options)
    if options["dry_run"]:
        check_study(rows, request, Progress(quiet=as_json))
        print_estimate(estimate(rows, request), as_json=as_json)
        return 0
    result = run_rows(rows, request, as_json=as_json)
    return finish(result, conditions, signing, as_json=as_json)


def run_rows(
    rows: Sequence[PlanRow],
    request: RunRequest,
    *,
    link: Mapping[str, Json] | None = None,
    as_json: bool = False,
    resumable: bool = True,
) -> StudyResult:
    """Make all attempts of a plan in new run directories.

    `link` is added to `run.json`: it names the run that they repeat, or the instances that could have been submitted. `resumable`: whether `ab run --resume` can continue them. `as_json`: the caller
    prints the result as JSON; that of an interrupted run is printed here.
    """
    progress = Progress(quiet=as_json)
    stopping = running_rule({**planned_meta(rows, request), **(link or {})}, progress.note)
    if stopping is not None:
        stopping.announce()
    with start_study(rows, request, progress, link, stopping) as study:
        result = _executed(study, progress, as_json=as_json, resumable=resumable)
    return result if stopping is None else replace(result, stop_reason=stopping.summary())


def resume_run(
    path: Path,
    tasks: Sequence[LoadedTask],
    request: RunRequest,
    *,
    again: Again | None = None,
    as_json: bool = False,
) -> StudyResult:
    """Make the remaining attempts of an existing run directory, and those that `again` selects."""
    progress = Progress(quiet=as_json)
    run = RunDirectory.open(path)
    progress.spent_before = sum(record.cost.total for record in study_records(run))
    stopping = running_rule(run.meta, progress.note)
    with resume_study(path, tasks, request, progress, again, stopping) as study:
        try:
            result = _executed(study, progress, as_json=as_json, resumable=True)
        finally:
            _print_interrupted_siblings(study)
    return result if stopping is None else replace(result, stop_reason=stopping.summary())


def _print_interrupted_siblings(study: Study) -> None:
    """Print how to continue the interrupted runs of other variants, which this command did not open."""
    runs = study.runs
    siblings = [other.path for other in study_runs(next(iter(runs.values()))) if other.meta.get("variant") not in runs]
    interrupted = [path for path in siblings if _is_interrupted(path)]
    if interrupted:
        from agentbench.reports.number_format import plural

        click.echo(f"The same study has {plural(len(interrupted), 'other interrupted run')}.", err=True)
    for path in interrupted:
        print_resume_command(path)


def _is_interrupted(path: Path) -> bool:
    """Return whether the run can be continued. One whose events cannot be read cannot."""
    try:
        return run_state(path) == "interrupted"
    except AgentBenchError:
        return False


def _executed(study: Study, progress: Progress, *, as_json: bool, resumable: bool) -> StudyResult:
    try:
        return execute(study, progress, quiet=as_json, resumable=resumable)
    except KeyboardInterrupt:
        if as_json:
            print_result(study.result(), as_json=True)
        raise


def execute(study: Study, progress: Progress, *, quiet: bool, resumable: bool) -> StudyResult:
    """Make the attempts of a study and close its runs. `resumable`: whether `ab run --resume` can continue them."""
    announce = announcer()

    def closed(run: RunDirectory, completed: bool) -> None:
        if not completed:
            announce.interrupted(run.path)
        if not completed and resumable:
            print_resume_command(run.path)
        elif not quiet:
            click.echo(f"Run directory: {run.path}", err=True)

    @contextmanager
    def closing() -> Iterator[None]:
        with saving():
            progress.close()
            yield

    with graceful_interrupts(progress.running):
        return execute_study(study, closed=closed, closing=closing)


@dataclass(frozen=True, slots=True)
class Signing:
    """The key that signs the runs when they end, and the witness log that they are appended to, if any."""

    key: SigningKey
    witness: Path | None = None


def run_signing(options: RunOptions) -> Signing | None:
    """Load the key of `--sign` and check the log of `--witness` before anything runs: the key may need a passphrase."""
    if options["sign"] is None and options["witness"] is None:
        return None
    from agentbench.cli.keys import signing_key
    from agentbench.signing.witness_log import require_sound

    signing = Signing(signing_key(options["sign"] or ""), options["witness"])
    if signing.witness is not None:
        require_sound(signing.witness)
    return signing


def finish(
    result: StudyResult, conditions: Sequence[Condition], signing: Signing | None = None, *, as_json: bool
) -> int:
    """Sign the runs if that is wanted, print the result, and return the exit code."""
    try:
        if signing is not None:
            _sign(result.runs, signing)
    finally:
        print_result(result, as_json=as_json)
    for path, repeatable in result.repeatable().items():
        print_unfinished(path, repeatable)
    if result.exit_code:
        click.echo("No attempt has a result; the reasons are above and in `ab show`.", err=True)
    code = exit_code(result, conditions)
    announcer().finished(result.runs, code)
    return code


def _sign(runs: Sequence[Path], signing: Signing) -> None:
    from agentbench.cli.sign import sign_runs

    for signed in sign_runs(runs, signing.key, witness=signing.witness):
        click.echo(f"Signed with {signed['name']} ({signed['key_id']}): {signed['run_dir']}", err=True)


def exit_code(result: StudyResult, conditions: Sequence[Condition]) -> int:
    """Return the exit code: harness errors first, then the conditions of `--fail-on`."""
    code = result.exit_code
    if code or not conditions:
        return code
    from agentbench.cli.fail_on import conditions_met

    met = conditions_met(conditions, [record for path in result.runs for record in RunDirectory.open(path).records()])
    if not met:
        return 0
    for condition in met:
        click.echo(f"--fail-on: {condition}", err=True)
    announcer().gate_failed(result.runs, ", ".join(met))
    return 1
