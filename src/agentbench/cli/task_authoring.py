"""`ab task from-commit`, `harvest` and `screen`: a repository's own history as tasks."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from agentbench.cli.options import FILE, FOLDER, json_option, sandbox_option, tasks_dir_option, workers_option

if TYPE_CHECKING:
    from agentbench.authoring.commit.from_commit import CreatedTask, TaskRequest
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
    """What both ways to make tasks from commits are told."""

    timeout: int
    memory: int
    repeats: int
    pin: bool
    sandbox: str
    as_json: bool


def common_options(function: F) -> F:
    decorators: list[Callable[[Any], Any]] = [
        click.option("--timeout", type=click.IntRange(1, 7200), default=300, show_default=True,
                     help="Seconds a run of the tests may take."),
        click.option("--memory", type=click.IntRange(64), default=2048, show_default=True,
                     help="Megabytes a sandbox may use."),
        click.option("--repeats", type=click.IntRange(2, 50), default=2, show_default=True,
                     help="Runs of parent and fix, each."),
        click.option("--pin/--no-pin", default=True, show_default=True,
                     help="Pin what setup installed by version and digest."),
        sandbox_option,
        json_option,
    ]  # fmt: skip
    return functools.reduce(lambda inner, one: one(inner), reversed(decorators), function)


def _wanted(repo: str, suite_dir: Path, common: Common) -> TaskRequest:
    from agentbench.authoring.commit.from_commit import TaskRequest

    return TaskRequest(
        repo=repo,
        suite_dir=suite_dir,
        timeout_sec=common["timeout"],
        mem_limit_mb=common["memory"],
        repeats=common["repeats"],
        pin=common["pin"],
    )


def _tell(line: str) -> None:
    from agentbench.core.text import printable

    click.echo(printable(line), err=True)


@contextlib.contextmanager
def _asked_for() -> Iterator[None]:
    """Here the repository and the commit are what the user gave, not what a task says: exit 2."""
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
    "--suite-dir", type=FOLDER, default=Path("tasks/harvested"), show_default=True, help="The suite's folder."
)
@click.option("--statement-file", type=FILE, help="The issue's text; without it the commit message is fix.")
@click.option("--id", "task_id", help="The task's id; drawn from repository and commit if not given.")
@click.option("--first-parent", is_flag=True, help="Take a merge as one change against its first parent.")
@click.option("--all-tests", is_flag=True, help="Require the whole test suite, not only the test files of the commit.")
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
    """Make a task from COMMIT, a fix that brings its tests along. REPO is a folder or a URL.

    The source changes become the reference, the test changes the hidden files; what must come to pass is found by running
    the parent and the fix in the sandbox.
    """
    from dataclasses import replace

    from agentbench.authoring.commit.from_commit import from_commit as make
    from agentbench.run.lab import Lab

    wanted = replace(
        _wanted(repo, suite_dir, common),
        statement=_statement(statement_file),
        task_id=task_id,
        first_parent=first_parent,
        all_tests=all_tests,
    )
    with _asked_for(), Lab(sandbox=common["sandbox"]) as lab:
        made = make(wanted, commit, lab, tell=_tell)
    _show_made(made, as_json=common["as_json"])


def _statement(path: Path | None) -> str | None:
    from agentbench.core.errors import InputError

    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--statement-file {path} cannot be read: {error}"
        raise InputError(msg) from None
    if not text.strip():
        msg = f"--statement-file {path} holds no text"
        raise InputError(msg)
    return text


def _show_made(made: CreatedTask, *, as_json: bool) -> None:
    from agentbench.core.text import printable

    verification = made.verification
    if as_json:
        row = {
            "task_id": made.draft.id,
            "folder": str(made.folder),
            "fail_to_pass": list(verification.fail_to_pass),
            "pass_to_pass": list(verification.pass_to_pass),
            "unsteady": list(verification.unsteady),
            "needs_approval": list(made.flags),
            "setup": made.plan,
            "dependencies": made.remark,
        }
        click.echo(json.dumps(row, indent=2))
        return
    counts = f"{len(verification.fail_to_pass)} fail-to-pass and {len(verification.pass_to_pass)} pass-to-pass tests"
    folder = made.folder.relative_to(Path.cwd()) if made.folder.is_relative_to(Path.cwd()) else made.folder
    click.echo(printable(f"made task {made.draft.id}: {folder} ({counts})"))
    _tell(f"  {made.remark}")
    for flag in made.flags:
        _tell(f"  to approve: {flag}")
    _tell(f"next: read {folder / 'notes.md'} and statement.md")


# --- a history ---------------------------------------------------------------------------------------------------


@click.command("harvest", epilog=HARVEST_EPILOG)
@click.argument("repo", metavar="REPO")
@tasks_dir_option
@click.option("--name", help="Suites NAME-dev and NAME-heldout are made; drawn from REPO if not given.")
@click.option("--max", "maximum", type=click.IntRange(1), default=20, show_default=True, help="Tasks to accept.")
@click.option("--examine", type=click.IntRange(1), default=200, show_default=True, help="Candidates to run at most.")
@click.option("--since", help="Only commits after this date (2024-01-31, '2 years ago').")
@click.option("--start", help="Go back from this commit or branch; the main branch if not given.")
@click.option(
    "--retry", multiple=True, metavar="KIND", help="Run again what was refused for this, such as 'setup failed'."
)
@click.option("--heldout", type=click.FloatRange(0, 1), default=0.3, show_default=True, help="Share that is held out.")
@click.option("--seed", type=int, default=20260307, show_default=True, help="Of the split.")
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
    """Make suites from the history of REPO: fixes that bring their tests along, verified in the sandbox.

    Every verdict is kept in NAME.harvest.json: the same command goes on where it was stopped.
    """
    from agentbench.authoring.commit.from_commit import repository_name
    from agentbench.authoring.commit.task_draft import check_name
    from agentbench.authoring.harvest.harvest import HarvestRequest
    from agentbench.authoring.harvest.harvest import harvest as gather
    from agentbench.cli.live_line import LiveLine
    from agentbench.run.lab import Lab

    called = check_name(name or repository_name(repo), "--name")
    request = HarvestRequest(
        task=_wanted(repo, tasks_dir / f"{called}-dev", common),
        heldout_dir=tasks_dir / f"{called}-heldout",
        ledger=tasks_dir / f"{called}.harvest.json",
        maximum=maximum,
        since=_day(since),
        start=start,
        workers=workers,
        examine=examine,
        heldout=heldout,
        seed=seed,
        retry=retry,
    )
    line = LiveLine()
    with _asked_for(), Lab(sandbox=common["sandbox"]) as lab:
        try:
            found = gather(
                request, lab, tell=line.tell, show_running=lambda what: line.show(what and f"running: {what}")
            )
        finally:
            line.show("")
    _show_harvest(found, request, as_json=common["as_json"])


_AGO = re.compile(r"(?i)(\d+|a|an|one|last) (day|week|month|year|hour)s?( ago)?|yesterday")


def _day(since: str | None) -> str | None:
    """A date for git, which takes what it does not understand for now, and finds nothing."""
    from datetime import datetime

    from agentbench.core.errors import InputError

    if since is None or _AGO.fullmatch(since.strip().replace(".", " ")):
        return since
    try:
        day = datetime.fromisoformat(since.strip())
    except ValueError:
        msg = f"--since: expected a date such as 2024-01-31 or '2 years ago'; got {since!r}"
        raise InputError(msg) from None
    return day.isoformat()  # with a time: git would take that of now


def _show_harvest(found: Harvest, request: HarvestRequest, *, as_json: bool) -> None:
    from dataclasses import asdict

    from agentbench.authoring.harvest.harvest import summary_line
    from agentbench.core.text import printable

    if as_json:
        row = {
            "verdicts": [asdict(one) for one in found.verdicts],
            "passed_over": dict(found.passed_over),
            "candidates": found.candidates,
            "left": found.left,
        }
        click.echo(json.dumps(row, indent=2))
        return
    for one in sorted(found.verdicts, key=lambda one: (not one.accepted, one.kind, one.commit)):
        click.echo(printable(summary_line(one) + (f" [{one.suite}]" if one.accepted else "")))
        for flag in one.flags:
            click.echo(printable(f"    to approve: {flag}"))
    accepted = [one for one in found.verdicts if one.accepted]
    held = sum(one.suite == request.heldout_dir.name for one in accepted)
    passed = ", ".join(f"{kind} {count}" for kind, count in found.passed_over.most_common())
    click.echo(f"passed over without a run: {passed or 'none'}; candidates not run: {found.left}")
    click.echo(
        f"{len(accepted)} of {len(found.verdicts)} accepted: {len(accepted) - held} in {request.task.suite_dir}, "
        f"{held} in {request.heldout_dir}"
    )


# --- the flake screen --------------------------------------------------------------------------------------------


@click.command("screen", epilog=SCREEN_EPILOG)
@click.option("--suite", required=True, help="The suite's name.")
@tasks_dir_option
@click.option("--repeats", type=click.IntRange(2, 100), default=5, show_default=True, help="Runs of each task.")
@click.option("--quarantine", is_flag=True, help="Move what is flaky or does not hold to the suite SUITE-quarantine.")
@workers_option
@sandbox_option
@json_option
def screen(
    *, suite: str, tasks_dir: Path, repeats: int, quarantine: bool, workers: int, sandbox: str, as_json: bool
) -> None:
    """Run baseline and reference of a suite's tasks over and over: how many flake?

    Exit 1 when a task is flaky or does not hold, unless it was put into quarantine.
    """
    import sys

    from agentbench.authoring.harvest.flake_screen import quarantine_task, summary
    from agentbench.contract.suite import load_suite
    from agentbench.core.text import printable
    from agentbench.run.lab import Lab
    from agentbench.run.validation import validate_suite

    loaded = load_suite(suite, tasks_dir)
    with Lab(sandbox=sandbox) as lab:
        found = validate_suite(loaded.tasks, lab, repeats=repeats, workers=workers, report=_tell)
    told = summary(found, repeats)
    bad = [one for one in found if not one.valid or one.flaky]
    place = tasks_dir / f"{suite}-quarantine"
    if quarantine:
        folders = {task.id: task.folder for task in loaded.tasks}
        for one in bad:
            quarantine_task(folders[one.task_id], place, one)
    if as_json:
        click.echo(json.dumps({**told, "quarantine": str(place) if quarantine and bad else None}, indent=2))
    else:
        for one in bad:
            click.echo(printable(f"  {one.task_id}: {one.why}"))
        click.echo(told["text"])
        if quarantine and bad:
            click.echo(f"moved {len(bad)} to {place}")
    sys.exit(1 if bad and not quarantine else 0)
