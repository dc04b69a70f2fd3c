"""`ab task from-commit`: a repository's own history as tasks."""

from __future__ import annotations

import json
from pathlib import Path

import click

from agentbench.cli.options import FILE, FOLDER, json_option, sandbox_option

FROM_COMMIT_EPILOG = """\b
Examples:
  ab task from-commit ../mylib 4f2a91c --suite-dir tasks/mylib
  ab task from-commit https://example.org/lib.git 4f2a91c --statement-file issue.md
"""

suite_dir_option = click.option(
    "--suite-dir", type=FOLDER, default=Path("tasks/harvested"), show_default=True, help="The suite's folder."
)
timeout_option = click.option(
    "--timeout",
    type=click.IntRange(1, 7200),
    default=300,
    show_default=True,
    help="Seconds a run of the tests may take.",
)
memory_option = click.option(
    "--memory", type=click.IntRange(64), default=2048, show_default=True, help="Megabytes a sandbox may use."
)
repeats_option = click.option(
    "--repeats", type=click.IntRange(2, 50), default=2, show_default=True, help="Runs of parent and fix, each."
)
pin_option = click.option(
    "--pin/--no-pin", default=True, show_default=True, help="Pin what setup installed by version and digest."
)


@click.command("from-commit", epilog=FROM_COMMIT_EPILOG)
@click.argument("repo", metavar="REPO")
@click.argument("commit", metavar="COMMIT")
@suite_dir_option
@click.option("--statement-file", type=FILE, help="The issue's text; without it the commit message is taken.")
@click.option("--id", "task_id", help="The task's id; drawn from repository and commit if not given.")
@click.option("--first-parent", is_flag=True, help="Take a merge as one change against its first parent.")
@click.option("--all-tests", is_flag=True, help="Require the whole test suite, not only the test files of the commit.")
@timeout_option
@memory_option
@repeats_option
@pin_option
@sandbox_option
@json_option
def from_commit(
    *,
    repo: str,
    commit: str,
    suite_dir: Path,
    statement_file: Path | None,
    task_id: str | None,
    first_parent: bool,
    all_tests: bool,
    timeout: int,
    memory: int,
    repeats: int,
    pin: bool,
    sandbox: str,
    as_json: bool,
) -> None:
    """Make a task from COMMIT, a fix that brings its tests along. REPO is a folder or a URL.

    The source changes become the reference, the test changes the hidden files; what must come to pass is found by running
    the parent and the fix in the sandbox.
    """
    from agentbench.authoring.fromcommit import Wanted
    from agentbench.authoring.fromcommit import from_commit as make
    from agentbench.core.text import printable
    from agentbench.run.lab import Lab

    wanted = Wanted(
        repo=repo,
        suite_dir=suite_dir,
        statement=_statement(statement_file),
        task_id=task_id,
        first_parent=first_parent,
        timeout_sec=timeout,
        mem_limit_mb=memory,
        repeats=repeats,
        pin=pin,
        all_tests=all_tests,
    )

    def tell(line: str) -> None:
        click.echo(printable(line), err=True)

    with Lab(sandbox=sandbox) as lab:
        made = make(wanted, commit, lab, tell=tell)
    if as_json:
        row = {
            "task_id": made.draft.id,
            "folder": str(made.folder),
            "fail_to_pass": list(made.proof.fail_to_pass),
            "pass_to_pass": list(made.proof.pass_to_pass),
            "unsteady": list(made.proof.unsteady),
            "needs_approval": list(made.flags),
            "setup": made.plan,
        }
        click.echo(json.dumps(row, indent=2))
        return
    counts = (
        f"{len(made.proof.fail_to_pass)} tests must come to pass, {len(made.proof.pass_to_pass)} must go on passing"
    )
    click.echo(printable(f"made task {made.draft.id}: {made.folder} ({counts})"))
    for flag in made.flags:
        click.echo(printable(f"  to approve: {flag}"), err=True)
    click.echo(f"next: read {made.folder / 'notes.md'} and statement.md", err=True)


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
