"""`ab task`: authoring. Nothing of a task runs here, except for what `lock` must run to know it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option

if TYPE_CHECKING:
    from agentbench.contract.load import LoadedTask
    from agentbench.core.canonical import Json

PATH = click.Path(path_type=Path)

CHECK_EPILOG = """\b
Example:
  ab task check tasks/mine/fix-median tasks/other
"""
NEW_EPILOG = """\b
Examples:
  ab task new tasks/mine/example
  ab task new tasks/mine/fix-parser --url https://example.org/repo.git --commit 0123abcd…
"""
LOCK_EPILOG = """\b
Example:
  ab task lock tasks/mine/fix-parser
"""
STATS_EPILOG = """\b
Example:
  ab task stats tasks/mine
"""


# verb → its module, its name there and one line of help: what they need is imported when they are called.
AUTHORING = {
    "audit": ("task_audit", "command", "Measure how often a task's oracle accepts a wrong patch."),
    "export": ("task_exchange", "export_group", "Write tasks in the format of another benchmark."),
    "from-commit": ("task_authoring", "from_commit", "Make a task from a commit that brings its tests along."),
    "harvest": ("task_authoring", "harvest", "Make suites from the history of a repository."),
    "import": ("task_exchange", "import_group", "Make tasks from the files of another benchmark."),
    "screen": ("task_authoring", "screen", "Run tasks over and over; put those that flake into quarantine."),
}


class TaskVerbs(click.Group):
    """The verbs of this file, and those that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *AUTHORING})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in AUTHORING:
            return super().get_command(ctx, cmd_name)
        import importlib

        module, name, _ = AUTHORING[cmd_name]
        found: click.Command = getattr(importlib.import_module(f"agentbench.cli.{module}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        told = {name: one.get_short_help_str(limit=90) for name, one in self.commands.items()}
        told |= {name: line for name, (_, _, line) in AUTHORING.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(told.items()))


@click.group("task", cls=TaskVerbs)
def command() -> None:
    """Author tasks: check them, make new ones, lock and measure them."""


# --- check -------------------------------------------------------------------------------------------------------


@command.command("check", epilog=CHECK_EPILOG)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=PATH)
@json_option
@click.pass_context
def check(ctx: click.Context, paths: tuple[Path, ...], *, as_json: bool) -> None:
    """Check schema and files of tasks; nothing runs. PATH is a task's folder or file, or a suite's folder.

    Exit code 0 when all are valid, else 2 with every problem.
    """
    import json

    from agentbench.core.errors import ContractError

    rows: list[dict[str, Json]] = []
    problems: list[str] = []
    for path in paths:
        rows += _check_path(path, problems)
    if as_json:
        click.echo(json.dumps({"ok": not problems, "tasks": rows, "problems": problems}, indent=2))
        ctx.exit(2 if problems else 0)
    for row in rows:
        if row["ok"]:
            click.echo(f"ok  {row['path']}  {row['task_id']}  {row['contract_id']}")
            remarks = row["remarks"]
            for remark in remarks if isinstance(remarks, list) else ():
                click.echo(f"    note: {remark}", err=True)
    if problems:
        bad = sum(not row["ok"] for row in rows)
        count = f"{bad} of {len(rows)} tasks refused" if bad else "refused"
        raise ContractError(count, problems=tuple(problems))


def _check_path(path: Path, problems: list[str]) -> list[dict[str, Json]]:
    from agentbench.contract.suite import load_suite
    from agentbench.core.errors import ContractError

    tasks = _task_paths(path)
    rows = [_check_one(task, problems) for task in tasks]
    if tasks == [path]:
        return rows
    try:
        load_suite(path.absolute().name, path.absolute().parent)
    except ContractError as error:
        # Problems of single tasks are known by now; what is left is about the suite as a whole.
        seen = {problem.partition(": ")[2] for problem in problems}
        problems += [
            problem for problem in error.problems or (error.message,) if problem.partition(": ")[2] not in seen
        ]
    return rows


def _task_paths(path: Path) -> list[Path]:
    """The tasks that a path stands for: itself, or those of a suite's folder."""
    from agentbench.contract.load import TASK_NAME

    if not path.is_dir() or (path / TASK_NAME).exists():
        return [path]
    return [file.parent for file in sorted(path.glob(f"*/{TASK_NAME}"))] or [path]


def _check_one(path: Path, problems: list[str]) -> dict[str, Json]:
    from agentbench.contract.advice import remarks
    from agentbench.contract.identity import identify
    from agentbench.contract.load import load_task
    from agentbench.contract.problem import InvalidFileError
    from agentbench.core.errors import ContractError

    try:
        loaded = load_task(path)
        ids = identify(loaded)
    except ContractError as error:
        found = list(error.problems) or [error.message]
        problems += [problem for problem in found if problem not in problems]
        parts = error.details if isinstance(error, InvalidFileError) else ()
        return {
            "path": str(path),
            "ok": False,
            "problems": found,
            "details": [
                {"file": part.file, "line": part.line, "key": part.key, "message": part.message} for part in parts
            ],
        }
    return {
        "path": str(path),
        "ok": True,
        "task_id": loaded.task.id,
        "suite": loaded.task.suite,
        "contract_id": ids.contract_id,
        "task_digest": ids.task_digest,
        "acceptance_id": ids.acceptance_id,
        "setup_key": ids.setup_key,
        "locked": loaded.lock is not None,
        "problems": [],
        "remarks": list(remarks(loaded)),
    }


# --- new ---------------------------------------------------------------------------------------------------------


@command.command("new", epilog=NEW_EPILOG)
@click.argument("folder", metavar="DIR", type=PATH)
@click.option("--url", help="R is a git repository: its URL or path …")
@click.option("--commit", help="… and the commit.")
@click.option("--archive", help="R is an archive: pypi:NAME==VERSION, a URL, or a file beside the task …")
@click.option("--sha256", help="… and its digest.")
@click.option("--repo-path", help="R is a folder, relative to DIR.")
@click.option(
    "--test-command", default="python -m pytest -q", show_default=True, help="Fails on R, passes when solved."
)
@json_option
def new(folder: Path, *, as_json: bool, repo_path: str | None, **source: str) -> None:
    """Make a new task in DIR (`…/SUITE/SLUG`); without a source it is a small example that can be run."""
    import json

    from agentbench.contract.templates import NewTask, new_task

    loaded = new_task(folder, NewTask(path=repo_path, **source))
    if as_json:
        click.echo(
            json.dumps({"task_id": loaded.task.id, "suite": loaded.task.suite, "file": str(folder / "task.yaml")})
        )
        return
    click.echo(f"made task {loaded.task.id} of suite {loaded.task.suite}: {folder / 'task.yaml'}")
    click.echo(f"next: edit it, then `ab task check {folder}`", err=True)


# --- stats -------------------------------------------------------------------------------------------------------


@command.command("stats", epilog=STATS_EPILOG)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=PATH)
@click.option("--fetch", is_flag=True, help="Also measure repositories that are not local folders; fetches them.")
@json_option
def stats(paths: tuple[Path, ...], *, fetch: bool, as_json: bool) -> None:
    """Strata and measured complexity proxies of tasks. PATH is a task's folder or file, or a suite's folder."""
    import json

    from agentbench.contract.complexity import LABEL
    from agentbench.contract.suite import find_tasks

    found = [loaded for path in paths for loaded in find_tasks(path)]
    rows = [_stats_row(loaded, fetch=fetch) for loaded in found]
    if as_json:
        click.echo(json.dumps({"tasks": rows, "strata": _strata_counts(found)}, indent=2))
        return
    for loaded, row in zip(found, rows, strict=True):
        strata = loaded.task.strata
        known = [value for value in (strata.ecosystem, strata.kind, strata.test_runtime, strata.dependencies) if value]
        click.echo(f"{loaded.task.id}  [{', '.join(known) or 'no strata'}]")
        click.echo(f"    {_measured_line(row['complexity'])}")
    for name, counts in _strata_counts(found).items():
        click.echo(f"{name}: " + ", ".join(f"{value} {count}" for value, count in counts.items()))
    click.echo(f"({LABEL})", err=True)


def _stats_row(loaded: LoadedTask, *, fetch: bool) -> dict[str, Json]:
    from agentbench.contract.advice import conditional_on_network
    from agentbench.contract.complexity import measure

    folder = loaded.repo_folder
    if folder is None and fetch and loaded.task.repo != "none":
        from agentbench.sandbox.state import default_state
        from agentbench.workspace.source.snapshot import Snapshots

        folder = Snapshots(default_state() / "snapshots").materialise(loaded).folder
    return {
        "task_id": loaded.task.id,
        "suite": loaded.task.suite,
        "strata": loaded.task.strata.model_dump(mode="json"),
        "conditional_on_network": conditional_on_network(loaded),
        "complexity": measure(folder).as_json() if folder is not None else None,
    }


def _measured_line(complexity: Json) -> str:
    if not isinstance(complexity, dict):
        return "not measured: R is not a local folder (--fetch)"
    packages = complexity["external_packages"]
    return (
        f"{complexity['files']} files, {complexity['lines']} lines, about {complexity['approx_tokens']} tokens, "
        f"{complexity['python_modules']} Python modules with {complexity['internal_imports']} imports among them, "
        f"{len(packages) if isinstance(packages, list | tuple) else 0} external packages"
    )


def _strata_counts(tasks: list[LoadedTask]) -> dict[str, dict[str, int]]:
    from collections import Counter

    counts: dict[str, Counter[str]] = {}
    for loaded in tasks:
        for name, value in loaded.task.strata.model_dump(mode="json").items():
            counts.setdefault(name, Counter())[value or "(not given)"] += 1
    return {name: dict(sorted(counter.items())) for name, counter in counts.items()}


# --- lock --------------------------------------------------------------------------------------------------------


@command.command("lock", epilog=LOCK_EPILOG)
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=PATH)
@sandbox_option
@fresh_option
@json_option
def lock(paths: tuple[Path, ...], *, sandbox: str, fresh_setup: bool, as_json: bool) -> None:
    """Resolve what a task leaves open and write task.lock.json beside it.

    Runs setup and the checks on untouched R: the commit, the environment, the test ids that become required and the
    files that become protected are then fixed, with the suite's scorers as they are now.
    """
    import json

    from agentbench.contract.load import load_task
    from agentbench.contract.lock import write_lock
    from agentbench.run.lab import Lab
    from agentbench.run.validation import lock_task

    tasks = [load_task(one, use_lock=False) for path in paths for one in _task_paths(path)]
    rows: list[dict[str, Json]] = []
    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        for task in tasks:
            made = lock_task(task, lab)
            path = write_lock(task.folder, made)
            ids = sum(len(one.fail_to_pass) + len(one.pass_to_pass) for one in made.checks.values())
            rows.append({"task_id": task.id, "lock": str(path), "contract_id": made.ids.contract_id, "test_ids": ids})
            if not as_json:
                click.echo(f"{task.id}: {path} ({ids} test ids, {len(made.protected or ())} protected files)")
    if as_json:
        click.echo(json.dumps({"tasks": rows}, indent=2))
