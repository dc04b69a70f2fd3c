"""Run agents on tasks, and grade patches."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.api.progress import EventObserver, OnEvent
from agentbench.api.runs import Run, open_run
from agentbench.api.tasks import TASKS_DIR, Tasks, load_task, resolve_tasks
from agentbench.contract.load import LoadedTask
from agentbench.contract.suite import joined_name
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.plugins.kinds import Kind
from agentbench.record.find_run import RUNS

if TYPE_CHECKING:
    from agentbench.acceptance.checks.result_parser import ResultParser
    from agentbench.acceptance.scorers.workspace import Scorer
    from agentbench.agents.base import AgentFactory
    from agentbench.execution.attempt.monitors import Monitor
    from agentbench.execution.executor_function import ExecutorFunction
    from agentbench.execution.plan import PlanRow
    from agentbench.execution.request import RunRequest
    from agentbench.models.protocol import Model
    from agentbench.record.schema import AttemptRecord
    from agentbench.sandbox.registry import SandboxFactory


@dataclass(frozen=True)
class RunResult:
    """The run directories that one call made: one per variant."""

    paths: tuple[Path, ...]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        return tuple(map(open_run, self.paths))

    @property
    def attempts(self) -> tuple[AttemptRecord, ...]:
        """The final record of every attempt."""
        return tuple(attempt for run in self.runs for attempt in run.attempts)


def run(  # noqa: PLR0913 - keyword options of one command
    tasks: Tasks | None = None,
    *,
    suite: str | None = None,
    tasks_dir: str | os.PathLike[str] = TASKS_DIR,
    agent: str | AgentFactory | None = None,
    variants: Sequence[str] = (),
    name: str | None = None,
    model: str | Model | None = None,
    temperature: float | None = None,
    max_steps: int | None = None,
    agent_command: str | None = None,
    agent_files: str | os.PathLike[str] | None = None,
    repeats: int = 1,
    seed: int = PROTOCOL_SEED,
    workers: int = 1,
    sandbox: str | SandboxFactory = "auto",
    executor: str | ExecutorFunction = "local",
    scorers: Sequence[str | Scorer] = (),
    checks: Mapping[str, ResultParser] | None = None,
    monitors: Sequence[str | Monitor] = (),
    prices: str | os.PathLike[str] | None = None,
    total_usd: float | None = None,
    out: str | os.PathLike[str] = RUNS,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Run an agent, or several variants, on tasks. Each attempt runs in a sandbox and is graded in a fresh one.

    The arguments are the options of `ab run`. `suite` is another way to name the tasks of a suite. Agent, model, sandbox,
    executor, scorers and monitors are names, or objects of this process; `checks` are parsers for the names in the checks
    of the tasks. The manifest records objects that were passed in, and `ab run --resume` refuses such a run. `on_event` is
    called with each event of the progress.

    Raises:
        InputError: tasks, agent or options are wrong; nothing has run.
        HarnessError: the infrastructure failed.
        KeyboardInterrupt: after running attempts were recorded as interrupted; `ab run --resume` continues.

    Examples:
        >>> import agentbench as ab
        >>> task = ab.load_task(ab.load_suite("demo").folder / "toy-median")
        >>> result = ab.run(task, agent="reference", out="runs")
        >>> result.attempts[0].result.passed
        True
    """
    from agentbench.api.extensions import named, named_model, register  # noqa: PLC0415 - slow import
    from agentbench.execution.config import CliChoices  # noqa: PLC0415
    from agentbench.execution.request import RunRequest  # noqa: PLC0415

    for parser, function in (checks or {}).items():
        register(Kind.CHECK, parser, function)
    loaded = _resolve(tasks, suite, Path(tasks_dir))
    choices = CliChoices(
        name=name,
        agent=None if agent is None else named(Kind.AGENT, agent),
        model=named_model(model),
        temperature=temperature,
        max_steps=max_steps,
        agent_command=agent_command,
        agent_files=None if agent_files is None else Path(agent_files),
    )
    request = RunRequest(
        suite=joined_name(loaded),
        tasks_dir=str(Path(tasks_dir).absolute()) if suite else "",
        task_paths=() if suite else tuple(str(task.folder.absolute()) for task in loaded),
        variants=tuple(variants),
        choices=choices,
        repeats=repeats,
        seed=seed,
        workers=workers,
        sandbox=named(Kind.SANDBOX, sandbox),
        executor=named(Kind.EXECUTOR, executor),
        scorers=tuple(named(Kind.SCORER, scorer) for scorer in scorers),
        monitors=tuple(named(Kind.MONITOR, monitor) for monitor in monitors),
        prices=None if prices is None else str(Path(prices).absolute()),
        total_usd=total_usd,
        out=Path(out),
    )
    return _plan_and_run(loaded, request, on_event)


def grade(
    task: LoadedTask | str | os.PathLike[str],
    patch: str | bytes,
    *,
    name: str = "patch",
    sandbox: str | SandboxFactory = "auto",
    out: str | os.PathLike[str] = RUNS,
    on_event: OnEvent | None = None,
) -> AttemptRecord:
    """Grade a patch in a fresh sandbox on the task's base repository, and return its record.

    Raises:
        InputError: the task is invalid or has no repository.
        HarnessError: the infrastructure failed.

    Examples:
        >>> import agentbench as ab
        >>> task = ab.load_task(ab.load_suite("demo").folder / "toy-median")
        >>> ab.grade(task, (task.folder / "reference.patch").read_bytes(), out="runs").result.passed
        True
        >>> ab.grade(task, "", out="runs").result.failure_reason
        <Reason.TESTS_FAILED: 'TESTS_FAILED'>
    """
    from agentbench.api.extensions import named  # noqa: PLC0415 - slow import
    from agentbench.execution.config import CliChoices  # noqa: PLC0415
    from agentbench.execution.predictions import prediction_rows, read_patch  # noqa: PLC0415
    from agentbench.execution.request import RunRequest  # noqa: PLC0415

    loaded = task if isinstance(task, LoadedTask) else load_task(task)
    data = patch.encode() if isinstance(patch, str) else patch
    rows = prediction_rows([loaded], [replace(read_patch(loaded.id, io.BytesIO(data)), method=name)])
    request = RunRequest(
        suite=loaded.task.suite,
        tasks_dir="",
        task_paths=(str(loaded.folder.absolute()),),
        variants=(),
        choices=CliChoices(),
        sandbox=named(Kind.SANDBOX, sandbox),
        out=Path(out),
    )
    return _run_rows(rows, request, on_event).attempts[0]


def _plan_and_run(tasks: Sequence[LoadedTask], request: RunRequest, on_event: OnEvent | None) -> RunResult:
    from agentbench.execution.extensions import passed_in  # noqa: PLC0415 - slow import
    from agentbench.execution.request import plan_attempts, require_agents  # noqa: PLC0415

    rows = plan_attempts(tasks, request)
    require_agents(rows)
    objects = passed_in(rows, request)
    if objects and request.executor == "ray":
        msg = f"executor ray makes attempts on other machines, which do not have {objects[0]} of this process"
        raise InputError(msg, remedy="make a package of it, installed on every node: `ab plugin new`")
    return _run_rows(rows, replace(request, from_python=objects), on_event)


def _run_rows(rows: Sequence[PlanRow], request: RunRequest, on_event: OnEvent | None) -> RunResult:
    from agentbench.api.execute_study import execute_study  # noqa: PLC0415 - slow import
    from agentbench.execution.open_study import start_study  # noqa: PLC0415

    with start_study(rows, request, EventObserver(on_event)) as study:
        return RunResult(execute_study(study).runs)


def _resolve(tasks: Tasks | None, suite: str | None, tasks_dir: Path) -> tuple[LoadedTask, ...]:
    if (tasks is None) == (suite is None):
        raise InputError("give either tasks or suite")
    named = suite if tasks is None else tasks
    assert named is not None  # noqa: S101 - checked above
    return resolve_tasks(named, tasks_dir)
