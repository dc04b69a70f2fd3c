"""Find and load suites: a folder of task folders with an optional scenario."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.contract.load import TASK_NAME, LoadedTask, load_scenario, load_task
from agentbench.contract.problem import did_you_mean
from agentbench.contract.schema import SLUG, Scenario
from agentbench.core.canonical import digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.core.text import shell_quoted

DEMO = "demo"


@dataclass(frozen=True)
class Suite:
    """The tasks of one folder, with their common scorers and weights."""

    name: str
    folder: Path
    tasks: tuple[LoadedTask, ...]
    scenario: Scenario

    @cached_property
    def digest(self) -> str:
        """Digest over the name, the task digests and the weights, independent of folder names."""
        tasks = {loaded.task.id: identify(loaded).task_digest for loaded in self.tasks}
        weights = self.scenario.weights.model_dump(mode="json")
        return digest({"agentbench": "suite/1", "name": self.name, "tasks": tasks, "weights": weights})


def load_suite(name: str, tasks_dir: Path) -> Suite:
    """Load all tasks of a suite, sorted by id. `demo` is always the bundled suite.

    Raises:
        ContractError: the suite is unknown or empty, or with all problems of all its tasks.
    """
    folder = suite_folder(name, tasks_dir)
    problems: list[str] = []
    scenario = Scenario()
    try:
        scenario = load_scenario(folder.absolute())  # as its tasks do, whose problems are the same then
    except ContractError as error:
        problems += error.problems
    tasks = _load_tasks(folder, problems)
    problems += suite_problems(name, tasks)
    if not tasks and not problems:
        problems.append(f"{folder}: no folder with a {TASK_NAME}")
    if problems:
        raise ContractError(f"suite {name}: {_count(problems)}", problems=tuple(problems))
    return Suite(name, folder, tuple(sorted(tasks, key=lambda loaded: loaded.task.id)), scenario)


def find_tasks(path: Path) -> tuple[LoadedTask, ...]:
    """Load the task at `path` (a task folder or file), or all tasks in a folder of tasks.

    Raises:
        ContractError: there is no task, or with all problems of all tasks.
    """
    if not path.is_dir() or (path / TASK_NAME).exists() or not any(path.glob(f"*/{TASK_NAME}")):
        return (load_task(path),)
    problems: list[str] = []
    tasks = _load_tasks(path, problems)
    if problems:
        raise ContractError(f"{path}: {_count(problems)}", problems=tuple(problems))
    return tuple(tasks)


def joined_name(tasks: Iterable[LoadedTask]) -> str:
    """Return the suite of some tasks, or the names of their suites joined by `+`."""
    return "+".join(sorted({loaded.task.suite for loaded in tasks}))


def suite_folder(name: str, tasks_dir: Path) -> Path:
    """Return the folder of a suite.

    Raises:
        ContractError: there is no such suite; the message lists those that exist.
    """
    if name == DEMO:
        return Path(str(resources.files("agentbench") / DEMO))
    known = available(tasks_dir)
    if name in known:
        return tasks_dir / name
    if not re.fullmatch(SLUG, name):
        raise ContractError(f"invalid suite name {name!r}", remedy=_name_remedy(name))
    hint = did_you_mean(name, known)
    remedy = ""
    if not tasks_dir.is_dir():
        remedy = f"{tasks_dir} is not a folder; pass the folder of your suites with --tasks-dir"
    elif (tasks_dir / name).is_dir():
        remedy = f"{tasks_dir / name} has no tasks: each is a folder with a {TASK_NAME}"
    raise ContractError(f"no suite `{name}` in {tasks_dir}{hint}; available: {', '.join(known)}", remedy=remedy)


def _name_remedy(name: str) -> str:
    path = Path(name)
    if path.name == name:
        return "a suite is a folder whose name has only letters, digits, '.', '_' and '-'; rename the folder"
    if re.fullmatch(SLUG, path.name) and path.is_dir():
        return f"use --tasks-dir {shell_quoted(path.parent)} --suite {path.name}"
    return "pass the name of the suite's folder, and its parent as --tasks-dir"


def available(tasks_dir: Path) -> list[str]:
    """List the suites that can be loaded: every folder with a task, and the bundled one."""
    names = {DEMO}
    try:
        for folder in tasks_dir.iterdir():
            if re.fullmatch(SLUG, folder.name) and any(folder.glob(f"*/{TASK_NAME}")):
                names.add(folder.name)
    except OSError:
        pass
    return sorted(names)


def _load_tasks(folder: Path, problems: list[str]) -> list[LoadedTask]:
    """Load the tasks in a folder, adding each problem once to `problems`."""
    tasks: list[LoadedTask] = []
    for file in _task_files(folder, problems):
        try:
            tasks.append(load_task(file))
        except ContractError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    return tasks


def _task_files(folder: Path, problems: list[str]) -> list[Path]:
    files: list[Path] = []
    try:
        for item in sorted(folder.iterdir()):
            if (item / TASK_NAME).exists():
                files.append(item / TASK_NAME)
            elif (item / "task.yml").exists():
                problems.append(f"{item / 'task.yml'}: rename it to {TASK_NAME}")
    except OSError as error:
        problems.append(f"{folder}: cannot read: {error.strerror}")
    return files


def suite_problems(name: str, tasks: Sequence[LoadedTask]) -> list[str]:
    """Return a problem for every task that does not fit into the suite: it names another one, or its id is taken."""
    problems: list[str] = []
    files_by_id: dict[str, Path] = {}
    for loaded in tasks:
        task = loaded.task
        if task.suite != name:
            problems.append(f"{loaded.file}: suite: expected {name}, the name of the suite folder; got {task.suite}")
        if task.id in files_by_id:
            problems.append(f"{loaded.file}: id: {task.id} is also the id of {files_by_id[task.id]}")
        files_by_id.setdefault(task.id, loaded.file)
    return problems


def _count(problems: list[str]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
