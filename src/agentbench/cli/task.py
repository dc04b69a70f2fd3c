"""`ab task`: create, check and measure tasks. Only `lock` executes anything of a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentbench.cli.options import fresh_option, json_option, sandbox_option, task_paths_argument
from agentbench.core.text import shell_quoted

if TYPE_CHECKING:
    from agentbench.contract.load import LoadedTask
    from agentbench.core.canonical import Json

CHECK_EPILOG = """\b
Example:
  ab task check tasks/mine/fix-median tasks/other
"""
NEW_EPILOG = """\b
Examples:
  ab task new tasks/mine/example --probe
  ab task new tasks/mine/fix-parser --url https://example.org/repo.git --commit 0123abcd…
"""
LOCK_EPILOG = """\b
Examples:
  ab task lock tasks/mine/fix-parser
  ab task lock --follow-suite tasks/mine
"""
STATS_EPILOG = """\b
Example:
  ab task stats tasks/mine
"""


# Command → (module, attribute, line in the help). Imported when called.
LAZY = {
    "check-probe": ("task_probe", "command", "Run the drivers of a task's probes and explain what is wrong."),
    "audit": ("task_audit", "command", "Measure how many wrong patches a task's checks accept."),
    "export": ("task_exchange", "export_group", "Export tasks to the format of another benchmark."),
    "from-commit": ("task_authoring", "from_commit", "Create a task from a commit that adds tests."),
    "harvest": ("task_authoring", "harvest", "Create suites from the history of a repository."),
    "import": ("task_exchange", "import_group", "Import tasks from another benchmark."),
    "screen": ("task_authoring", "screen", "Run tasks repeatedly to find flaky ones."),
}


class TaskGroup(click.Group):
    """The commands of this module, and those of LAZY."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *LAZY})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LAZY:
            return super().get_command(ctx, cmd_name)
        import importlib

        module, name, _ = LAZY[cmd_name]
        member: click.Command = getattr(importlib.import_module(f"agentbench.cli.{module}"), name)
        return member

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {name: member.get_short_help_str(limit=90) for name, member in self.commands.items()}
        lines |= {name: line for name, (_, _, line) in LAZY.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(lines.items()))


@click.group("task", cls=TaskGroup, epilog=CHECK_EPILOG)
def command() -> None:
    """Create, check and measure tasks."""


# --- check -------------------------------------------------------------------------------------------------------


@command.command("check", epilog=CHECK_EPILOG)
@task_paths_argument()
@json_option
@click.pass_context
def check(ctx: click.Context, paths: tuple[Path, ...], *, as_json: bool) -> None:
    """Check the schema and files of tasks, without running them.

    PATH is a task folder, a task.yaml or a suite folder. Exit code 0 if all are valid, else 2.
    """
    import json

    from agentbench.contract.freeze_scenario import notice_of_other_scenario
    from agentbench.core.errors import ContractError

    rows: list[dict[str, Json]] = []
    problems: list[str] = []
    tasks: list[LoadedTask] = []
    for path in paths:
        rows += _check_path(path, problems, tasks)
    notice = "" if problems else notice_of_other_scenario(tasks)
    if notice:
        click.echo(f"warning: {notice}", err=True)
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
        invalid = sum(not row["ok"] for row in rows)
        msg = f"{invalid} of {len(rows)} tasks are invalid" if invalid else "invalid suite"
        raise ContractError(msg, problems=tuple(problems))


def _check_path(path: Path, problems: list[str], loaded: list[LoadedTask]) -> list[dict[str, Json]]:
    """Check the tasks of a path; add their problems to `problems`, and those without any to `loaded`."""
    from agentbench.contract.suite import load_suite
    from agentbench.core.errors import ContractError

    tasks = _task_paths(path)
    rows = [_check_one(task, problems, loaded) for task in tasks]
    if tasks == [path]:
        return rows
    try:
        load_suite(path.absolute().name, path.absolute().parent)
    except ContractError as error:
        # Problems of single tasks are already listed; add those of the suite as a whole.
        known = {problem.partition(": ")[2] for problem in problems}
        problems += [
            problem for problem in error.problems or (error.message,) if problem.partition(": ")[2] not in known
        ]
    return rows


def _task_paths(path: Path) -> list[Path]:
    """Return the tasks of a suite folder, or the path itself."""
    from agentbench.contract.load import TASK_NAME

    if not path.is_dir() or (path / TASK_NAME).exists():
        return [path]
    return [file.parent for file in sorted(path.glob(f"*/{TASK_NAME}"))] or [path]


def _check_one(path: Path, problems: list[str], valid: list[LoadedTask]) -> dict[str, Json]:
    from agentbench.contract.advice import remarks
    from agentbench.contract.identity import identify
    from agentbench.contract.load import load_task
    from agentbench.contract.problem import InvalidFileError
    from agentbench.core.errors import ContractError

    try:
        loaded = load_task(path)
        ids = identify(loaded)
    except ContractError as error:
        messages = list(error.problems) or [error.message]
        problems += [problem for problem in messages if problem not in problems]
        parts = error.details if isinstance(error, InvalidFileError) else ()
        return {
            "path": str(path),
            "ok": False,
            "problems": messages,
            "details": [
                {"file": part.file, "line": part.line, "key": part.key, "message": part.message} for part in parts
            ],
        }
    valid.append(loaded)
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
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--url", help="Git repository (URL or path); needs --commit.")
@click.option("--commit", help="Commit of the git repository.")
@click.option("--archive", help="Archive: pypi:NAME==VERSION, a URL or a file; needs --sha256.")
@click.option("--sha256", help="Digest of the archive.")
@click.option("--repo-path", help="Folder, relative to DIR.")
@click.option(
    "--test-command",
    default="python -m pytest -q",
    show_default=True,
    help="Command that fails on the base repository and passes when the task is solved.",
)
@click.option("--probe", is_flag=True, help="Add a probe check with a driver that speaks its protocol.")
@json_option
def new(folder: Path, *, as_json: bool, repo_path: str | None, probe: bool, **source: str) -> None:
    """Create a task in DIR (…/SUITE/SLUG); without a source, a small runnable example."""
    import json

    from agentbench.contract.templates import NewTask, new_task

    loaded = new_task(folder, NewTask(path=repo_path, probe=probe, **source))
    if as_json:
        click.echo(
            json.dumps({"task_id": loaded.task.id, "suite": loaded.task.suite, "file": str(folder / "task.yaml")})
        )
        return
    click.echo(f"Created task {loaded.task.id} of suite {loaded.task.suite}: {folder / 'task.yaml'}")
    click.echo(f"Next: edit it, then run `ab task check {shell_quoted(folder)}`", err=True)
    if probe:
        click.echo(
            f"      edit {folder / 'driver.py'}, then run `ab task check-probe {shell_quoted(folder)}`", err=True
        )


# --- stats -------------------------------------------------------------------------------------------------------


@command.command("stats", epilog=STATS_EPILOG)
@task_paths_argument()
@click.option("--fetch", is_flag=True, help="Also download and measure repositories that are not on this machine.")
@json_option
def stats(paths: tuple[Path, ...], *, fetch: bool, as_json: bool) -> None:
    """Show strata and complexity measures of tasks. PATH is a task folder, a task.yaml or a suite folder."""
    import json

    from agentbench.contract.complexity import LABEL
    from agentbench.contract.suite import find_tasks

    tasks = [loaded for path in paths for loaded in find_tasks(path)]
    rows = [_stats_row(loaded, fetch=fetch) for loaded in tasks]
    if as_json:
        click.echo(json.dumps({"tasks": rows, "strata": _strata_counts(tasks)}, indent=2))
        return
    for loaded, row in zip(tasks, rows, strict=True):
        strata = loaded.task.strata
        stated = [value for value in (strata.ecosystem, strata.kind, strata.test_runtime, strata.dependencies) if value]
        click.echo(f"{loaded.task.id}  [{', '.join(stated) or 'no strata'}]")
        click.echo(f"    {'no repository' if loaded.task.repo == 'none' else _measured_line(row['complexity'])}")
    for name, counts in _strata_counts(tasks).items():
        click.echo(f"{name}: " + ", ".join(f"{value} {count}" for value, count in counts.items()))
    click.echo(f"({LABEL})", err=True)


def _stats_row(loaded: LoadedTask, *, fetch: bool) -> dict[str, Json]:
    from agentbench.contract.advice import conditional_on_network
    from agentbench.contract.complexity import measure

    folder = loaded.repo_folder
    if folder is None and loaded.task.repo != "none" and (fetch or loaded.has_local_source):
        from agentbench.sandbox.state import default_state
        from agentbench.workspace.source.snapshot import Snapshots

        folder = Snapshots(default_state() / "snapshots").materialize(loaded).folder
    return {
        "task_id": loaded.task.id,
        "suite": loaded.task.suite,
        "strata": loaded.task.strata.model_dump(mode="json"),
        "conditional_on_network": conditional_on_network(loaded),
        "complexity": measure(folder).as_json() if folder is not None else None,
    }


def _measured_line(complexity: Json) -> str:
    if not isinstance(complexity, dict):
        return "not measured: the repository is not on this machine (use --fetch)"
    packages = complexity["external_packages"]
    return (
        f"{complexity['files']} files, {complexity['lines']} lines, about {complexity['approx_tokens']} tokens, "
        f"{complexity['python_modules']} Python modules with {complexity['internal_imports']} internal imports, "
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
@task_paths_argument()
@sandbox_option
@fresh_option
@click.option(
    "--follow-suite",
    is_flag=True,
    help="Lock only tasks with other scorers than scenario.yaml has now, and update those.",
)
@json_option
def lock(paths: tuple[Path, ...], *, sandbox: str, fresh_setup: bool, follow_suite: bool, as_json: bool) -> None:
    """Resolve open values of a task and write task.lock.json.

    Runs setup and the checks on the base repository to fix the commit, the environment, the required test ids, the
    protected files and the suite's scorers.
    """
    import json

    from agentbench.contract.freeze_scenario import with_other_scenario, without_frozen_scenario
    from agentbench.contract.load import load_task
    from agentbench.contract.lock import write_lock
    from agentbench.contract.suite import find_tasks
    from agentbench.core.atomic_file import write_atomic
    from agentbench.execution.lab import Lab
    from agentbench.execution.validation import lock_task

    if follow_suite:
        kept = with_other_scenario(task for path in paths for task in find_tasks(path))
        tasks = [without_frozen_scenario(load_task(task.folder, use_lock=False)) for task in kept]
    else:
        tasks = [load_task(folder, use_lock=False) for path in paths for folder in _task_paths(path)]
    rows: list[dict[str, Json]] = []
    with Lab(sandbox=sandbox, fresh_setup=fresh_setup) as lab:
        for task in tasks:
            locked = lock_task(task, lab)
            if follow_suite:
                write_atomic(task.file, task.text.encode(), durable=True)
            path = write_lock(task.folder, locked)
            ids = sum(len(check.fail_to_pass) + len(check.pass_to_pass) for check in locked.checks.values())
            rows.append({"task_id": task.id, "lock": str(path), "contract_id": locked.ids.contract_id, "test_ids": ids})
            if not as_json:
                click.echo(f"{task.id}: {path} ({ids} test ids, {len(locked.protected or ())} protected files)")
    if as_json:
        click.echo(json.dumps({"tasks": rows}, indent=2))
    elif not rows:
        click.echo("Every task has the scorers and the judge of its suite.")
