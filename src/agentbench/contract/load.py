"""From a task folder to a `LoadedTask`: everything the other layers ask of a contract, resolved and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentbench.contract.consistency import inconsistencies
from agentbench.contract.lock import FrozenScenario, Lock, read_lock
from agentbench.contract.problem import Problem, refuse
from agentbench.contract.pytest_command import recognise
from agentbench.contract.scenario import Weights, load_scenario
from agentbench.contract.schema import Check, Judge, Parser, Repo, Scorer, Task
from agentbench.contract.schema_problems import conform
from agentbench.contract.task_files import MAX_TEXT_BYTES, HiddenFile, read_bytes, read_hidden
from agentbench.contract.yaml_document import Document, read_document
from agentbench.core.errors import ContractError

TASK_NAME = "task.yaml"
SHORT_FORM_ID = "validation"


@dataclass(frozen=True, slots=True)
class Limit:
    """A cap and the key that set it."""

    value: int
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedTask:
    """A task that passed every check which needs no execution. Holds text, no open files; hidden bytes stay on disk."""

    task: Task
    folder: Path
    file: Path
    text: str
    statement: str
    scenario: FrozenScenario
    """The suite's scorers and judge: those frozen in the lock, else those of `scenario.yaml` now."""
    lock: Lock | None = None
    weights: Weights | None = None
    """Of the suite's scenario as it is now: a policy of the suite, frozen in no task."""

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def checks(self) -> tuple[Check, ...]:
        """The acceptance suite in order; test ids from the lock where a check names none itself."""
        checks = self.task.oracle.checks
        if not checks and self.task.validation is not None:
            checks = (short_form(self.task.validation.passing_command),)
        return checks if self.lock is None else tuple(_with_locked_ids(check, self.lock) for check in checks)

    @property
    def baseline_command(self) -> str | None:
        """What must fail on R. None: the mandatory checks are the baseline."""
        return self.task.validation.failing_command if self.task.validation is not None else None

    @property
    def editable_globs(self) -> tuple[str, ...]:
        """Empty: everything may be edited."""
        return self.task.policy.editable_globs or self.task.agent.editable_globs

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The task's own scorers, then those of the suite that it does not replace by name."""
        own = {scorer.name for scorer in self.task.scorers}
        return (*self.task.scorers, *(scorer for scorer in self.scenario.scorers if scorer.name not in own))

    @property
    def judge(self) -> Judge | None:
        return self.task.judge if self.task.judge is not None else self.scenario.judge

    @property
    def wall(self) -> Limit:
        return _smaller(
            Limit(self.task.environment.timeout_sec, "environment.timeout_sec"),
            Limit(self.task.budget.wall_sec, "budget.wall_sec"),
        )

    @property
    def tool_calls(self) -> Limit:
        steps = Limit(self.task.agent.max_steps, "agent.max_steps")
        calls = self.task.budget.tool_calls
        return steps if calls is None else _smaller(steps, Limit(calls, "budget.tool_calls"))

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
        """The local folder that is R, when it is one."""
        repo = self.task.repo
        return self.folder / repo.path if isinstance(repo, Repo) and repo.path is not None else None

    def driver_file(self, check: Check) -> Path:
        """The program that judges a probe.

        Raises:
            ContractError: the check is no probe.
        """
        if check.driver is None:
            raise ContractError(f"{self.file}: check {check.id} has no driver")
        return self.folder / check.driver

    def hidden_files(self) -> Mapping[bytes, HiddenFile]:
        """Path in the tree → content, of the files that only the grading replica gets.

        Raises:
            ContractError: the folder was changed since and cannot be used.
        """
        if self.task.oracle.hidden is None:
            return {}
        return read_hidden(self.folder / self.task.oracle.hidden)

    def with_lock(self, lock: Lock) -> LoadedTask:
        """The same task under a lock, for instance one that was made on the fly."""
        return dataclasses.replace(self, lock=lock, scenario=lock.scenario)


def load_task(path: Path, *, use_lock: bool = True) -> LoadedTask:
    """Load a task from its folder or its `task.yaml`.

    `use_lock=False` ignores a lock file, as making a new one must.

    Raises:
        ContractError: with all problems of the task, each with file, line, key and what was expected.
    """
    file = _task_file(path)
    folder = file.parent
    document = read_document(file)
    conformity = conform(document, Task)
    problems = list(conformity.problems)
    if conformity.model is not None:
        problems += inconsistencies(document, conformity.model, folder, conformity.doubtful)
    task = conformity.model
    if problems or task is None:
        raise refuse(document.file, problems)
    # Absolute from here on: what was loaded must not depend on the working directory.
    folder = folder.absolute()
    scenario = load_scenario(folder.parent)
    loaded = LoadedTask(
        task=task,
        folder=folder,
        file=folder / file.name,
        text=document.text,
        statement=_statement(document, task, folder),
        scenario=FrozenScenario(scorers=scenario.scorers, judge=scenario.judge),
        weights=scenario.weights,
    )
    lock = read_lock(folder) if use_lock else None
    if lock is None:
        return loaded
    return _locked(loaded, lock)


def short_form(command: str) -> Check:
    """The one check that `validation.passing_command` stands for."""
    parser: Parser = "pytest" if recognise(command) is not None else "exit_code"
    return Check(id=SHORT_FORM_ID, layer="unit", command=command, parser=parser)


def _task_file(path: Path) -> Path:
    try:
        if not path.is_dir():
            return path
        file = path / TASK_NAME
        if not file.exists():
            near = [name.name for name in path.iterdir() if name.name in {"task.yml", "Task.yaml", "task.yaml.txt"}]
            hint = f"; rename {near[0]} to {TASK_NAME}" if near else ""
            raise refuse(str(path), [Problem(str(path), 0, "", f"expected a file {TASK_NAME} in this folder{hint}")])
    except (OSError, ValueError) as error:
        raise refuse(str(path), [Problem(str(path), 0, "", f"cannot be read: {error}")]) from None
    return file


def _statement(document: Document, task: Task, folder: Path) -> str:
    if task.statement is not None:
        return task.statement
    if task.statement_file is not None:
        try:
            text = read_bytes(folder / task.statement_file, MAX_TEXT_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError:
            problem = document.problem(("statement_file",), f"{task.statement_file} is not UTF-8 text")
            raise refuse(document.file, [problem]) from None
        if not text.strip() or "\0" in text:
            problem = document.problem(("statement_file",), f"expected some text; {task.statement_file} holds none")
            raise refuse(document.file, [problem])
        return text.replace("\r\n", "\n")
    return _drawn(task)


def _drawn(task: Task) -> str:
    """A statement for a task that gives none. Free of the title, which is no part of what identifies a task."""
    lines = [f"Task {task.id}."]
    if task.validation is not None:
        lines.append(f"The command `{task.validation.failing_command}` fails in this repository.")
        lines.append(f"Change the code so that `{task.validation.passing_command}` passes.")
    else:
        commands = [check.command for check in task.oracle.checks if check.mandatory and check.command is not None]
        wanted = " and ".join(f"`{command}`" for command in commands)
        lines.append(
            f"Change the code so that {wanted} passes." if wanted else "Change the code so that it is accepted."
        )
    return "\n".join(lines) + "\n"


def _with_locked_ids(check: Check, lock: Lock) -> Check:
    found = lock.checks.get(check.id)
    if found is None or check.parser == "exit_code" or check.fail_to_pass or check.pass_to_pass:
        return check
    return check.model_copy(update={"fail_to_pass": found.fail_to_pass, "pass_to_pass": found.pass_to_pass})


def _smaller(first: Limit, second: Limit) -> Limit:
    return second if second.value < first.value else first


def _locked(loaded: LoadedTask, lock: Lock) -> LoadedTask:
    # Here and not at the top: identity builds on what this module defines.
    from agentbench.contract.identity import stale  # noqa: PLC0415

    locked = loaded.with_lock(lock)
    problems = stale(locked, lock)
    if problems:
        error = refuse(str(loaded.folder), problems)
        error.remedy = f"look at what changed, then `ab task lock {loaded.folder}`"
        raise error
    return locked
