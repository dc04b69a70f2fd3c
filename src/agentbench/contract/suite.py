"""Suites: a folder of tasks, their scenario, and where `demo` is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.contract.load import TASK_NAME, LoadedTask, load_task
from agentbench.contract.problem import did_you_mean
from agentbench.contract.scenario import Scenario, load_scenario
from agentbench.core.canonical import digest
from agentbench.core.errors import ContractError

DEMO = "demo"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Suite:
    name: str
    folder: Path
    tasks: tuple[LoadedTask, ...]
    scenario: Scenario

    @cached_property
    def digest(self) -> str:
        """Over the digests of its tasks and its weights; the order of folders does not matter."""
        tasks = {loaded.task.id: identify(loaded).task_digest for loaded in self.tasks}
        weights = self.scenario.weights.model_dump(mode="json")
        return digest({"agentbench": "suite/1", "name": self.name, "tasks": tasks, "weights": weights})


def load_suite(name: str, tasks_dir: Path) -> Suite:
    """All tasks of a suite, sorted by id. The bundled suite `demo` is found wherever the package is installed.

    Raises:
        ContractError: the suite is unknown or empty, or with all problems of all its tasks.
    """
    folder = suite_folder(name, tasks_dir)
    problems: list[str] = []
    scenario = Scenario()
    try:
        scenario = load_scenario(folder)
    except ContractError as error:
        problems += error.problems
    tasks: list[LoadedTask] = []
    for file in _task_files(folder, problems):
        try:
            tasks.append(load_task(file))
        except ContractError as error:
            problems += [problem for problem in error.problems if problem not in problems]
    problems += _disagreements(name, tasks)
    if not tasks and not problems:
        problems.append(f"{folder}: expected at least one folder with a {TASK_NAME}")
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ContractError(f"suite {name}: {count}", problems=tuple(problems))
    return Suite(name, folder, tuple(sorted(tasks, key=lambda loaded: loaded.task.id)), scenario)


def find_tasks(path: Path) -> tuple[LoadedTask, ...]:
    """The task at `path` (its folder or its file), or all tasks of a folder of tasks.

    Raises:
        ContractError: nothing there, or with all problems of all its tasks.
    """
    if not path.is_dir() or (path / TASK_NAME).exists() or not any(path.glob(f"*/{TASK_NAME}")):
        return (load_task(path),)
    problems: list[str] = []
    tasks: list[LoadedTask] = []
    for file in _task_files(path, problems):
        try:
            tasks.append(load_task(file))
        except ContractError as error:
            problems += error.problems
    if problems:
        raise ContractError(f"{path}: {len(problems)} problems", problems=tuple(problems))
    return tuple(tasks)


def suite_folder(name: str, tasks_dir: Path) -> Path:
    """Where a suite lies.

    Raises:
        ContractError: there is no such suite; names those that exist.
    """
    if name == DEMO:
        return Path(str(files("agentbench") / DEMO))
    known = available(tasks_dir)
    if name in known:
        return tasks_dir / name
    if not _NAME.fullmatch(name):
        raise ContractError(
            f"{name!r} is not the name of a suite", remedy="give the folder's name, and its parent as --tasks-dir"
        )
    hint = did_you_mean(name, known)
    raise ContractError(f"there is no suite {name} in {tasks_dir}{hint}; available: {', '.join(known)}")


def available(tasks_dir: Path) -> list[str]:
    """Names of the suites that can be loaded: every folder that holds a task, and the bundled one."""
    found = {DEMO}
    try:
        for folder in tasks_dir.iterdir():
            if _NAME.fullmatch(folder.name) and any(folder.glob(f"*/{TASK_NAME}")):
                found.add(folder.name)
    except OSError:
        pass
    return sorted(found)


def _task_files(folder: Path, problems: list[str]) -> list[Path]:
    found: list[Path] = []
    try:
        for item in sorted(folder.iterdir()):
            if (item / TASK_NAME).exists():
                found.append(item / TASK_NAME)
            elif (item / "task.yml").exists():
                problems.append(f"{item / 'task.yml'}: expected the name {TASK_NAME}")
    except OSError as error:
        problems.append(f"{folder}: cannot be read: {error.strerror}")
    return found


def _disagreements(name: str, tasks: list[LoadedTask]) -> list[str]:
    problems: list[str] = []
    first: dict[str, Path] = {}
    for loaded in tasks:
        task = loaded.task
        if task.suite != name:
            problems.append(f"{loaded.file}: suite: expected {name}, as the folder is called; got {task.suite}")
        if task.id in first:
            problems.append(f"{loaded.file}: id: {task.id} is also the id of {first[task.id]}")
        first.setdefault(task.id, loaded.file)
    return problems
