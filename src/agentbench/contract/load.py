"""Load task folders and scenarios, or report every problem in them."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path

from agentbench.contract.consistency import inconsistencies
from agentbench.contract.lock import Identities, Lock, read_lock
from agentbench.contract.problem import InvalidFileError, Problem
from agentbench.contract.pytest_command import parse_pytest_command
from agentbench.contract.schema import Check, FrozenScenario, Judge, Repo, Scenario, Scorer, Task, Weights
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.task_files import MAX_TEXT_BYTES, HiddenFile, read_bytes, read_hidden
from agentbench.contract.yaml_document import Document, read_document
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.core.text import shell_quoted

TASK_NAME = "task.yaml"
SCENARIO_NAME = "scenario.yaml"
SHORT_FORM_ID = "validation"


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit and the key that sets it."""

    value: int
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A valid task: everything that can be checked without running it. Hidden files stay on disk until asked for."""

    task: Task
    folder: Path
    file: Path
    text: str
    statement: str
    scenario: FrozenScenario
    """The suite's scorers and judge: from the lock if there is one, else as the task froze them, else from `scenario.yaml`."""
    lock: Lock | None = None
    weights: Weights | None = None
    """The suite's current weights. They belong to the suite, so a lock does not freeze them."""
    origin: Path | None = None
    """The task's folder on the machine that started the run, if `folder` is a copy on another."""
    identities: Identities | None = None
    """The digests of the original, if `folder` is a copy without the base repository."""

    def __repr__(self) -> str:
        return f"LoadedTask({self.id!r}, {str(self.folder)!r})"

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def checks(self) -> tuple[Check, ...]:
        """The acceptance checks in order, with test ids from the lock where a check names none."""
        checks = self.task.oracle.checks
        if not checks and self.task.validation is not None:
            checks = (short_form_check(self.task.validation.passing_command),)
        return checks if self.lock is None else tuple(_with_locked_ids(check, self.lock) for check in checks)

    @property
    def baseline_command(self) -> str | None:
        """The command that must fail on the base repository; None if the mandatory checks are the baseline."""
        return self.task.validation.failing_command if self.task.validation is not None else None

    @property
    def editable_globs(self) -> tuple[str, ...]:
        """Patterns of editable files; empty if everything may be edited."""
        return self.task.policy.editable_globs or self.task.agent.editable_globs

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The task's own scorers, then those of the suite whose names the task does not reuse."""
        own = {scorer.name for scorer in self.task.scorers}
        return (*self.task.scorers, *(scorer for scorer in self.scenario.scorers if scorer.name not in own))

    @property
    def judge(self) -> Judge | None:
        return self.task.judge if self.task.judge is not None else self.scenario.judge

    @property
    def judge_enabled(self) -> bool:
        """Whether a judge model may be asked about attempts at this task."""
        return self.judge is None or self.judge.enabled

    @property
    def wall(self) -> Limit:
        timeout = Limit(self.task.environment.timeout_sec, "environment.timeout_sec")
        return min(timeout, Limit(self.task.budget.wall_sec, "budget.wall_sec"), key=attrgetter("value"))

    @property
    def tool_calls(self) -> Limit:
        steps = Limit(self.task.agent.max_steps, "agent.max_steps")
        calls = self.task.budget.tool_calls
        return steps if calls is None else min(steps, Limit(calls, "budget.tool_calls"), key=attrgetter("value"))

    @property
    def wall_sec(self) -> int:
        return self.wall.value

    @property
    def max_tool_calls(self) -> int:
        return self.tool_calls.value

    @property
    def reference_file(self) -> Path | None:
        return self.folder / self.task.reference if self.task.reference is not None else None

    @property
    def repo_folder(self) -> Path | None:
        """The folder of the base repository, or None if it comes from a URL or archive."""
        repo = self.task.repo
        return self.folder / repo.path if isinstance(repo, Repo) and repo.path is not None else None

    @property
    def has_local_source(self) -> bool:
        """Whether the base repository is on this machine: a folder, a clone or an archive file."""
        repo = self.task.repo
        named = (repo.path, repo.url, repo.archive) if isinstance(repo, Repo) else ()
        return any(name is not None and (self.folder / name).exists() for name in named)

    def driver_file(self, check: Check) -> Path:
        """Return the driver program of a probe.

        Raises:
            ContractError: the check is not a probe.
        """
        if check.driver is None:
            raise ContractError(f"{self.file}: check `{check.id}` has no driver")
        return self.folder / check.driver

    def hidden_files(self) -> Mapping[bytes, HiddenFile]:
        """Read the files that only the grading replica gets, by their path in the tree.

        Raises:
            ContractError: the folder changed after loading and is no longer valid.
        """
        if self.task.oracle.hidden is None:
            return {}
        return read_hidden(self.folder / self.task.oracle.hidden)

    def with_lock(self, lock: Lock) -> LoadedTask:
        """Return this task with a lock applied, for instance one that was never written."""
        return dataclasses.replace(self, lock=lock, scenario=lock.scenario)


def load_task(path: Path, *, use_lock: bool = True) -> LoadedTask:
    """Load a task from its folder or its `task.yaml`.

    `use_lock=False` ignores the lock file; use it to make a new lock.

    Raises:
        ContractError: with all problems of the task, each with file, line, key and what was expected.
    """
    file = _task_file(path)
    folder = file.parent
    document = read_document(file)
    validated = validate_document(document, Task)
    problems = list(validated.problems)
    if validated.model is not None:
        problems += inconsistencies(document, validated.model, folder, validated.guessed)
    task = validated.model
    if problems or task is None:
        raise InvalidFileError(document.file, problems)
    # Absolute from here on, so that a loaded task does not depend on the working directory.
    folder = folder.absolute()
    scenario = load_scenario(folder.parent)
    loaded = LoadedTask(
        task=task,
        folder=folder,
        file=folder / file.name,
        text=document.text,
        statement=_statement(document, task, folder),
        scenario=task.scenario or scenario.frozen(),
        weights=scenario.weights,
    )
    lock = read_lock(folder) if use_lock else None
    return loaded if lock is None else _apply_lock(loaded, lock)


def load_scenario(suite_folder: Path) -> Scenario:
    """Load the scenario of a suite; without a file, return the defaults.

    Raises:
        ContractError: with every problem in the file.
    """
    path = suite_folder / SCENARIO_NAME
    if not os.path.lexists(path):
        return Scenario()
    document = read_document(path)
    validated = validate_document(document, Scenario)
    scenario, problems = validated.model, list(validated.problems)
    if scenario is None or problems:
        raise InvalidFileError(document.file, problems)
    weights = scenario.weights
    total = weights.minimal + weights.trace + weights.maintainability
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        problems.append(document.problem(("weights",), f"expected weights that sum to 1; they sum to {total:g}"))
    if scenario.scorers:
        from agentbench.contract.scorers import scorer_list_problems  # noqa: PLC0415 - few tasks have scorers

        problems += [document.problem(path, message) for path, message in scorer_list_problems(scenario.scorers)]
    if problems:
        raise InvalidFileError(document.file, problems)
    return scenario


def short_form_check(command: str) -> Check:
    """Return the check that `validation.passing_command` stands for."""
    parser = "pytest" if parse_pytest_command(command) is not None else "exit_code"
    return Check(id=SHORT_FORM_ID, layer="unit", command=command, parser=parser)


def _task_file(path: Path) -> Path:
    try:
        if not path.is_dir():
            return path
        file = path / TASK_NAME
        if not file.exists():
            similar = [
                entry.name for entry in path.iterdir() if entry.name in {"task.yml", "Task.yaml", "task.yaml.txt"}
            ]
            hint = f"; rename {similar[0]} to {TASK_NAME}" if similar else ""
            raise InvalidFileError(str(path), [Problem(str(path), 0, "", f"no {TASK_NAME} in this folder{hint}")])
    except (OSError, ValueError) as error:
        raise InvalidFileError(str(path), [Problem(str(path), 0, "", f"cannot read: {error}")]) from None
    return file


def _statement(document: Document, task: Task, folder: Path) -> str:
    if task.statement is not None:
        return task.statement
    if task.statement_file is not None:
        try:
            text = read_bytes(folder / task.statement_file, MAX_TEXT_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError:
            problem = document.problem(("statement_file",), f"{task.statement_file} is not UTF-8 text")
            raise InvalidFileError(document.file, [problem]) from None
        if not text.strip() or "\0" in text:
            problem = document.problem(("statement_file",), f"expected some text; {task.statement_file} has none")
            raise InvalidFileError(document.file, [problem])
        return text.replace("\r\n", "\n")
    return _default_statement(task)


def _default_statement(task: Task) -> str:
    """Write a statement for a task that has none.

    The text is part of the task's digest: do not change it. It leaves out the title, which is in no digest.
    """
    lines = [f"Task {task.id}."]
    if task.validation is not None:
        lines.append(f"The command `{task.validation.failing_command}` fails in this repository.")
        lines.append(f"Change the code so that `{task.validation.passing_command}` passes.")
    else:
        commands = [check.command for check in task.oracle.checks if check.mandatory and check.command is not None]
        required = " and ".join(f"`{command}`" for command in commands)
        lines.append(
            f"Change the code so that {required} passes." if required else "Change the code so that it is accepted."
        )
    return "\n".join(lines) + "\n"


def _with_locked_ids(check: Check, lock: Lock) -> Check:
    locked = lock.checks.get(check.id)
    if locked is None or check.parser == "exit_code" or check.fail_to_pass or check.pass_to_pass:
        return check
    return check.model_copy(update={"fail_to_pass": locked.fail_to_pass, "pass_to_pass": locked.pass_to_pass})


def _apply_lock(loaded: LoadedTask, lock: Lock) -> LoadedTask:
    # Imported here because identity imports this module.
    from agentbench.contract.identity import stale_lock_problems  # noqa: PLC0415

    locked = loaded.with_lock(lock)
    problems = stale_lock_problems(locked, lock)
    if problems:
        error = InvalidFileError(str(loaded.folder), problems)
        error.remedy = f"review the change, then run `ab task lock {shell_quoted(loaded.folder)}`"
        raise error
    return locked
