"""Load and validate tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from agentbench.contract.load import LoadedTask
from agentbench.contract.load import load_task as load_task_file
from agentbench.contract.suite import Suite, find_tasks
from agentbench.contract.suite import load_suite as load_suite_folder
from agentbench.core.errors import InputError

if TYPE_CHECKING:
    from agentbench.acceptance.validation import TaskValidation
    from agentbench.authoring.formats.importer import Importer

TASKS_DIR = Path("tasks")
Tasks: TypeAlias = "str | os.PathLike[str] | LoadedTask | Suite | Sequence[LoadedTask]"
"""Tasks as a caller names them: the name of a suite, the path of a task or of a folder of tasks, or tasks that are loaded."""


def load_suite(name: str, tasks_dir: str | os.PathLike[str] = TASKS_DIR) -> Suite:
    """Load all tasks of a suite. `demo` is always the bundled suite.

    Raises:
        ContractError: the suite is unknown, or with all problems of all its tasks.

    Examples:
        >>> import agentbench as ab
        >>> suite = ab.load_suite("demo")
        >>> suite.tasks[-1].id
        'toy-median'
    """
    return load_suite_folder(name, Path(tasks_dir))


def load_task(path: str | os.PathLike[str]) -> LoadedTask:
    """Load one task from its folder or its `task.yaml`.

    Raises:
        ContractError: with all problems of the task.

    Examples:
        >>> import agentbench as ab
        >>> task = ab.load_task(ab.load_suite("demo").folder / "toy-median")
        >>> task.id
        'toy-median'
    """
    return load_task_file(Path(path))


def validate(
    tasks: Tasks,
    *,
    tasks_dir: str | os.PathLike[str] = TASKS_DIR,
    repeats: int = 2,
    workers: int = 1,
    sandbox: str = "auto",
) -> list[TaskValidation]:
    """Check that the baseline of each task fails, its reference passes, and results are stable.

    Raises:
        ContractError: a task cannot be loaded.
        SandboxError: the harness failed.

    Examples:
        >>> import agentbench as ab
        >>> (result,) = ab.validate(ab.load_suite("demo").folder / "toy-median")
        >>> result.valid, result.baseline, result.reference
        (True, 'fail', 'pass')
    """
    from agentbench.execution.lab import Lab  # noqa: PLC0415 - slow import
    from agentbench.execution.validation import validate_suite  # noqa: PLC0415

    loaded = resolve_tasks(tasks, Path(tasks_dir))
    with Lab(sandbox=sandbox) as lab:
        return validate_suite(loaded, lab, repeats=repeats, workers=workers, report=lambda _line: None)


def import_tasks(
    importer: str | Importer, source: str | os.PathLike[str], suite_dir: str | os.PathLike[str]
) -> tuple[LoadedTask, ...]:
    """Create tasks from another benchmark, as `ab task import` does, and load them.

    `importer` is a function, or the name of a plug-in.

    Raises:
        InputError: there is no such importer, or a created task is invalid.

    Examples:
        >>> import agentbench as ab
        >>> ab.import_tasks("no_such_format", "rows.jsonl", "tasks/new")
        Traceback (most recent call last):
        ...
        agentbench.plugins.discovery.PluginError: no importer 'no_such_format' is installed
    """
    from agentbench.authoring.formats.importer import OTHER_IMPORTERS, import_with  # noqa: PLC0415 - slow import

    function = OTHER_IMPORTERS.get(importer) if isinstance(importer, str) else importer
    return import_with(function, Path(source), Path(suite_dir))


def resolve_tasks(tasks: Tasks, tasks_dir: Path) -> tuple[LoadedTask, ...]:
    """Return the tasks that a caller named.

    Raises:
        ContractError: they cannot be loaded.
        InputError: there is none.
    """
    if isinstance(tasks, Suite):
        return tasks.tasks
    if isinstance(tasks, LoadedTask):
        return (tasks,)
    if isinstance(tasks, str) and not Path(tasks).exists():
        if "/" in tasks:
            raise InputError(
                f"{tasks} does not exist", remedy="give a suite, or the path of a task or of a folder of tasks"
            )
        return load_suite_folder(tasks, tasks_dir).tasks
    loaded = find_tasks(Path(tasks)) if isinstance(tasks, str | os.PathLike) else tuple(tasks)
    if not loaded:
        raise InputError("no tasks given")
    return loaded
