"""`ab task from-commit`, `harvest` and `screen`: create tasks from the history of a repository."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from agentbench.cli.options import FILE, FOLDER, json_option, sandbox_option, tasks_dir_option, workers_option
from agentbench.cli.output import called_as
from agentbench.reports.number_format import plural

if TYPE_CHECKING:
    from agentbench.authoring.commit.commit_reader import TaskRequest
    from agentbench.authoring.commit.from_commit import CreatedTask
    from agentbench.authoring.harvest.harvest import Harvest, HarvestRequest

F = TypeVar("F", bound=Callable[..., Any])

FROM_COMMIT_EPILOG = """\b
Examples:
  ab task from-commit ../mylib 4f2a91c --suite-dir tasks/mylib
  ab task from-commit https://example.org/lib.git 4f2a91c --statement-file issue.md
"""
HARVEST_EPILOG = """\b
Examples:
  ab task harvest ../mylib --max 20 --since 2024-01-01 --workers 2
  ab task harvest https://example.org/lib.git --name lib --tasks-dir tasks --max 50
"""
SCREEN_EPILOG = """\b
Examples:
  ab task screen --suite mylib-dev --repeats 5 --workers 2
  ab task screen --suite mylib-dev --quarantine
"""


class Common(TypedDict):
    """Options shared by `from-commit` and `harvest`."""

    timeout: int
    memory: int
    repeats: int
    pin: bool
    sandbox: str
    as_json: bool


def common_options(function: F) -> F:
    decorators: list[Callable[[Any], Any]] = [
        click.option("--timeout", type=click.IntRange(1, 7200), default=300, show_default=True,
                     help="Timeout of a test run in seconds."),
        click.option("--memory", type=click.IntRange(64), default=2048, show_default=True,
                     help="Memory limit of a sandbox in MB."),
        click.option("--repeats", type=click.IntRange(2, 50), default=2, show_default=True,
                     help="Runs of parent and fix each."),
        click.option("--pin/--no-pin", default=True, show_default=True,
                     help="Pin installed packages by version and digest."),
        sandbox_option,
        json_option,
    ]  # fmt: skip
    return functools.reduce(lambda inner, decorator: decorator(inner), reversed(decorators), function)


def _task_request(repo: str, suite_dir: Path, common: Common) -> TaskRequest:
    from agentbench.authoring.commit.commit_reader import TaskRequest

    return TaskRequest(
        repo=repo,
        suite_dir=suite_dir,
        timeout_sec=common["timeout"],
        mem_limit_mb=common["memory"],
        repeats=common["repeats"],
        pin=common["pin"],
    )


def _print(line: str) -> None:
    from agentbench.core.text import printable

    click.echo(printable(line), err=True)


def _warn(line: str) -> None:
    from agentbench.core.text import printable

    click.secho(printable(f"warning: {line}"), err=True, fg="yellow", bold=True)


def _warn_if_not_portable(repo: str) -> None:
    from agentbench.authoring.commit.from_commit import why_not_portable

    reason = why_not_portable(repo)
    if reason:
        _warn(f"not portable: {reason}; clone it from a URL, or give the URL as REPO")


@contextlib.contextmanager
def _source_errors_as_input_errors() -> Iterator[None]:
    """Report source errors as invalid input (exit 2), because the user gave repository and commit directly."""
    from agentbench.core.errors import InputError, SourceError

    try:
        yield
    except SourceError as error:
        raise InputError(
            error.message, remedy=error.remedy.replace("`repo.commit`", "the commit").replace("`repo.url`", "REPO")
        ) from error


# --- one commit --------------------------------------------------------------------------------------------------


@click.command("from-commit", epilog=FROM_COMMIT_EPILOG)
@click.argument("repo", metavar="REPO")
@click.argument("commit", metavar="COMMIT")
@click.option(
    "--suite-dir", type=FOLDER, default=Path("tasks/harvested"), show_default=True, help="Folder of the suite."
)
@click.option("--statement-file", type=FILE, help="File with the issue text [default: the commit message].")
@click.option("--id", "task_id", help="Task id [default: from repository and commit].")
@click.option("--first-parent", is_flag=True, help="Treat a merge as one change against its first parent.")
@click.option("--all-tests", is_flag=True, help="Require the whole test suite instead of the commit's test files.")
@common_options
def from_commit(
    *,
    repo: str,
    commit: str,
    suite_dir: Path,
    statement_file: Path | None,
    task_id: str | None,
    first_parent: bool,
    all_tests: bool,
    **common: Unpack[Common],
) -> None:
    """Create a task from COMMIT, a fix that adds tests. REPO is a folder or a URL.

    Source changes become the reference, test changes become hidden files. The required tests are found by running the
    parent and the fix in the sandbox.
    """
    from dataclasses import replace

    from agentbench.authoring.commit.from_commit import from_commit as create
    from agentbench.cli.step_progress import StepProgress
    from agentbench.contract.json_schema import write_suite_schemas
    from agentbench.execution.lab import Lab

    request = replace(
        _task_request(repo, suite_dir, common),
        statement=_statement(statement_file),
        task_id=task_id,
        first_parent=first_parent,
        all_tests=all_tests,
    )
    with _source_errors_as_input_errors(), Lab(sandbox=common["sandbox"]) as lab, StepProgress() as progress:
        created = create(request, commit, lab, notify=progress.step)
    write_suite_schemas(created.folder.parent)
    _show_created(created, repo, as_json=common["as_json"])


def _statement(path: Path | None) -> str | None:
    from agentbench.core.errors import InputError

    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read --statement-file {path}: {error}") from None
    if not text.strip():
        raise InputError(f"--statement-file {path} is empty")
    return text


def _show_created(created: CreatedTask, repo: str, *, as_json: bool) -> None:
    from agentbench.authoring.commit.from_commit import why_not_portable
    from agentbench.core.text import printable

    verification = created.verification
    if as_json:
        row = {
            "task_id": created.draft.id,
            "folder": str(created.folder),
            "fail_to_pass": list(verification.fail_to_pass),
            "pass_to_pass": list(verification.pass_to_pass),
            "unsteady": list(verification.unsteady),
            "needs_approval": list(created.flags),
            "suggested_sentences": list(created.suggestions),
            "setup": created.environment.plan,
            "dependencies": created.environment.remark,
            "pinned": not created.environment.unpinned,
            "unpinned_because": created.environment.unpinned or None,
            "origin": created.draft.origin,
            "portable": not why_not_portable(repo),
        }
        click.echo(json.dumps(row, indent=2))
        return
    counts = f"{len(verification.fail_to_pass)} fail-to-pass and {len(verification.pass_to_pass)} pass-to-pass tests"
    folder = created.folder.relative_to(Path.cwd()) if created.folder.is_relative_to(Path.cwd()) else created.folder
    click.echo(printable(f"Created task {created.draft.id}: {folder} ({counts})"))
    _print(f"  {created.environment.remark}")
    if created.environment.unpinned:
        _warn(f"NOT PINNED, so the environment can change: {created.environment.unpinned}")
    _warn_if_not_portable(repo)
    for flag in created.flags:
        _print(f"  to approve: {flag}")
    _print(f"Next: read {folder / 'notes.md'} and statement.md")


# --- harvest ---------------------------------------------------------------------------------------------------


@click.command("harvest", epilog=HARVEST_EPILOG)
@click.argument("repo", metavar="REPO")
@tasks_dir_option
@click.option("--name", help="Prefix of the suites NAME-dev and NAME-heldout [default: from REPO].")
@click.option(
    "--max", "maximum", type=click.IntRange(1), default=20, show_default=True, help="Number of tasks to accept."
)
@click.option(
    "--examine", type=click.IntRange(1), default=200, show_default=True, help="Maximum number of candidates to run."
)
@click.option("--since", help="Only commits after this date, e.g. 2024-01-31 or '2 years ago'.")
@click.option("--start", help="Commit or branch to start from [default: the main branch].")
@click.option(
    "--retry", multiple=True, metavar="KIND", help="Retry candidates rejected for this reason, e.g. 'setup failed'."
)
@click.option(
    "--heldout",
    type=click.FloatRange(0, 1),
    default=0.3,
    show_default=True,
    help="Share of held-out tasks, as the probability for each.",
)
@click.option("--seed", type=int, default=20260307, show_default=True, help="Seed of the split.")
@workers_option
@common_options
def harvest(
    *,
    repo: str,
    tasks_dir: Path,
    name: str | None,
    maximum: int,
    examine: int,
    since: str | None,
    start: str | None,
    retry: tuple[str, ...],
    heldout: float,
    seed: int,
    workers: int,
    **common: Unpack[Common],
) -> None:
    """Create suites from the history of REPO: fixes that add tests, verified in the sandbox.

    Results are kept in NAME.harvest.json, so the same command continues where it stopped.
    """
    from agentbench.authoring.commit.commit_reader import repository_name
    from agentbench.authoring.commit.task_draft import check_name
    from agentbench.authoring.harvest.harvest import HarvestRequest
    from agentbench.authoring.harvest.harvest import harvest as run_harvest
    from agentbench.cli.step_progress import StepProgress
    from agentbench.execution.lab import Lab

    prefix = check_name(name or repository_name(repo), "--name")
    request = HarvestRequest(
        task=_task_request(repo, tasks_dir / f"{prefix}-dev", common),
        heldout_dir=tasks_dir / f"{prefix}-heldout",
        ledger=tasks_dir / f"{prefix}.harvest.json",
        maximum=maximum,
        since=_day(since),
        start=start,
        workers=workers,
        examine=examine,
        heldout=heldout,
        seed=seed,
        retry=retry,
    )
    try:
        with _source_errors_as_input_errors(), Lab(sandbox=common["sandbox"]) as lab, StepProgress() as progress:
            result = run_harvest(request, lab, notify=progress.print, show_running=progress.show)
    except KeyboardInterrupt:
        kept = f"Results are kept in {request.ledger}." if request.ledger.exists() else "There are no results yet."
        _print(f"{kept} To continue: {shlex.join([called_as(), *sys.argv[1:]])}")
        raise
    _show_harvest(result, request, as_json=common["as_json"])


_AGO = re.compile(r"(?i)(\d+|a|an|one|last) (day|week|month|year|hour)s?( ago)?|yesterday")


def _day(since: str | None) -> str | None:
    """Check a date for git, which silently takes an invalid one for the current time."""
    from datetime import datetime

    from agentbench.core.errors import InputError

    if since is None or _AGO.fullmatch(since.strip().replace(".", " ")):
        return since
    try:
        day = datetime.fromisoformat(since.strip())
    except ValueError:
        raise InputError(f"--since: expected a date such as 2024-01-31 or '2 years ago'; got {since!r}") from None
    return day.isoformat()  # git would add the current time to a bare date


def _show_harvest(harvest: Harvest, request: HarvestRequest, *, as_json: bool) -> None:
    from dataclasses import asdict

    from agentbench.authoring.harvest.harvest import summary_line
    from agentbench.core.text import printable

    if as_json:
        row = {
            "verdicts": [
                {**asdict(verdict), "pinned": not verdict.unpinned if verdict.accepted else None}
                for verdict in harvest.verdicts
            ],
            "passed_over": dict(harvest.passed_over),
            "candidates": harvest.candidates,
            "left": harvest.left,
        }
        click.echo(json.dumps(row, indent=2))
        return
    for verdict in sorted(harvest.verdicts, key=lambda verdict: (not verdict.accepted, verdict.kind, verdict.commit)):
        click.echo(printable(summary_line(verdict) + (f" [{verdict.suite}]" if verdict.accepted else "")))
        if verdict.unpinned:
            click.echo(printable(f"    NOT PINNED: {verdict.unpinned}"))
        for flag in verdict.flags:
            click.echo(printable(f"    to approve: {flag}"))
    accepted = [verdict for verdict in harvest.verdicts if verdict.accepted]
    held_out = sum(verdict.suite == request.heldout_dir.name for verdict in accepted)
    skipped = ", ".join(f"{kind} {count}" for kind, count in harvest.passed_over.most_common())
    click.echo(f"Skipped without a run: {skipped or 'none'}; candidates not run: {harvest.left}")
    click.echo(
        f"{len(accepted)} of {len(harvest.verdicts)} accepted: {len(accepted) - held_out} in {request.task.suite_dir}"
        + (f", {held_out} in {request.heldout_dir}" if held_out or request.heldout else "")
    )
    if accepted:
        _warn_if_not_portable(request.task.repo)
    unpinned = sum(bool(verdict.unpinned) for verdict in accepted)
    if unpinned:
        _warn(f"{unpinned} of {len(accepted)} tasks are NOT PINNED, so their environment can change (reasons above)")


# --- screen --------------------------------------------------------------------------------------------


@click.command("screen", epilog=SCREEN_EPILOG)
@click.option("--suite", required=True, help="Name of the suite.")
@tasks_dir_option
@click.option("--repeats", type=click.IntRange(2, 100), default=5, show_default=True, help="Runs of each task.")
@click.option("--quarantine", is_flag=True, help="Move flaky and invalid tasks to the suite SUITE-quarantine.")
@workers_option
@sandbox_option
@json_option
def screen(
    *, suite: str, tasks_dir: Path, repeats: int, quarantine: bool, workers: int, sandbox: str, as_json: bool
) -> None:
    """Run baseline and reference of a suite's tasks repeatedly and report flaky ones.

    Exit code 1 if a task is flaky or invalid, unless --quarantine is given.
    """
    from agentbench.authoring.harvest.flake_screen import quarantine_task, summary
    from agentbench.contract.suite import load_suite
    from agentbench.core.text import printable
    from agentbench.execution.lab import Lab
    from agentbench.execution.validation import validate_suite

    loaded = load_suite(suite, tasks_dir)
    with Lab(sandbox=sandbox) as lab:
        results = validate_suite(loaded.tasks, lab, repeats=repeats, workers=workers, report=_print)
    counts = summary(results, repeats)
    rejected = [result for result in results if not result.valid or result.flaky]
    quarantine_dir = tasks_dir / f"{suite}-quarantine"
    if quarantine:
        folders = {task.id: task.folder for task in loaded.tasks}
        for result in rejected:
            quarantine_task(folders[result.task_id], quarantine_dir, result)
    if as_json:
        moved_to = str(quarantine_dir) if quarantine and rejected else None
        click.echo(json.dumps({**counts, "quarantine": moved_to}, indent=2))
    else:
        for result in rejected:
            click.echo(printable(f"  {result.task_id}: {result.why}"))
        click.echo(counts["text"])
        if quarantine and rejected:
            click.echo(f"Moved {plural(len(rejected), 'task')} to {quarantine_dir}")
    sys.exit(1 if rejected and not quarantine else 0)
