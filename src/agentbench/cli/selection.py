"""The options that select tasks, shared by `run`, `validate-tasks`, `grade` and `task audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from agentbench.cli.options import RUN, stack, tasks_dir_option
from agentbench.core.dataclass import dataclass

if TYPE_CHECKING:
    from agentbench.contract.load import LoadedTask
    from agentbench.contract.selection import FailedTasks, Selection


class StratumType(click.ParamType[tuple[str, str]]):
    """NAME=VALUE."""

    name = "NAME=VALUE"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, wanted = value.partition("=")
        if not (name and equals and wanted):
            self.fail(f"expected NAME=VALUE, for example kind=bugfix; got '{value}'.", param, ctx)
        return name, wanted


selection_options = stack(
    click.option("--suite", help="Name of the suite."),
    tasks_dir_option,
    click.option(
        "--task",
        "tasks",
        multiple=True,
        metavar="ID|PATH",
        help="Only this task: an id or a glob such as 'fix-*', or the path of a task or of a folder of tasks. Can be "
        "repeated.",
    ),
    click.option(
        "--stratum",
        "strata",
        type=StratumType(),
        multiple=True,
        help="Only tasks of this stratum, for example kind=bugfix. Can be repeated.",
    ),
    click.option("--failed-of", type=RUN, help="Only tasks that this run did not pass."),
    click.option("--limit", type=click.IntRange(1), metavar="N", help="Only the first N tasks, in order of their ids."),
)


class SelectionOptions(TypedDict):
    """Parameters of `selection_options`."""

    suite: str | None
    tasks_dir: Path
    tasks: tuple[str, ...]
    strata: tuple[tuple[str, str], ...]
    failed_of: Path | None
    limit: int | None


@dataclass(frozen=True, slots=True)
class Selected:
    """The selected tasks, and where they come from."""

    suite: str
    tasks: tuple[LoadedTask, ...]
    available: tuple[LoadedTask, ...]
    """The tasks that were selected from."""
    paths: tuple[Path, ...]
    """The tasks or folders given by path; empty if a suite was given."""
    tasks_dir: Path
    selection: Selection

    @property
    def record(self) -> dict[str, object] | None:
        """The selection as the run directory keeps it; None if all tasks were selected."""
        return self.selection.as_json(len(self.tasks), len(self.available))


def select_tasks(options: SelectionOptions, paths: Sequence[Path] = ()) -> Selected:
    """Load the tasks of a suite or of paths, and select among them.

    A `--task` that exists as a path adds tasks; any other is an id or a glob. Without suite and paths, they are those of
    the run of `--failed-of`.

    Raises:
        UsageError: there is neither a suite nor a path, or both.
        ContractError: a task is invalid.
        InputError: nothing is selected.
    """
    from agentbench.contract.selection import Selection
    from agentbench.contract.suite import find_tasks, joined_name, load_suite

    suite, tasks_dir = options["suite"], options["tasks_dir"]
    failed = options["failed_of"]
    given = {text: "/" in text or (suite is None and Path(text).exists()) for text in options["tasks"]}
    sources = (*paths, *(Path(text) for text, is_path in given.items() if is_path))
    if suite is None and not sources and failed is not None:
        suite, tasks_dir, sources = _source_of(failed, tasks_dir)
    if suite is not None and sources:
        raise click.UsageError("Give either --suite or paths of tasks.")
    if suite is None and not sources:
        missing = f"{next(iter(given))} does not exist. " if given else ""
        raise click.UsageError(f"{missing}Give --suite, or the path of a task.")
    if suite is not None:
        tasks, where = load_suite(suite, tasks_dir).tasks, f"suite {suite}"
    else:
        tasks = tuple({task.folder: task for path in sources for task in find_tasks(path)}.values())
        where = ", ".join(map(str, sources))
    selection = Selection(
        patterns=tuple(text for text, is_path in given.items() if not is_path),
        strata=options["strata"],
        failed=_failed_tasks(failed) if failed is not None else None,
        limit=options["limit"],
    )
    chosen = selection.of(tasks, where)
    return Selected(suite or joined_name(chosen), chosen, tasks, sources, tasks_dir, selection)


def _source_of(run: Path, tasks_dir: Path) -> tuple[str | None, Path, tuple[Path, ...]]:
    """Return the suite of a run with the folder of suites, or the paths of tasks that the run was given instead."""
    from agentbench.record.run_directory import RunDirectory

    meta = RunDirectory.open(run).meta
    request = meta.get("request")
    asked = request if isinstance(request, dict) else {}
    paths, folder = asked.get("task_paths"), asked.get("tasks_dir")
    if isinstance(paths, list) and paths:
        return None, tasks_dir, tuple(Path(str(path)) for path in paths)
    return str(meta.get("suite", "")), Path(str(folder)) if folder else tasks_dir, ()


def _failed_tasks(run: Path) -> FailedTasks:
    """Read the tasks with an attempt that counts in the contract rate and did not pass."""
    from agentbench.contract.selection import FailedTasks
    from agentbench.reports.record_rows import trial_of
    from agentbench.reports.sources import no_results, open_run
    from agentbench.statistics.trials import Rate

    opened = open_run(run)
    if not opened.rows:
        raise no_results(str(run), opened)
    failed = frozenset(row.task for row in opened.rows if trial_of(row).value(Rate.CONTRACT) == 0)
    return FailedTasks(opened.run_id, opened.path.name, failed)
