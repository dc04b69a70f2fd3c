"""Run agents on tasks, and grade patches."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentbench.api.agents import AgentFactory
from agentbench.api.progress import EventObserver, OnEvent
from agentbench.api.runs import Run, open_run
from agentbench.api.tasks import TASKS_DIR, Tasks, load_task, resolve_tasks
from agentbench.contract.load import LoadedTask
from agentbench.core.errors import InputError
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.record.find_run import RUNS

if TYPE_CHECKING:
    from agentbench.execution.plan import PlanRow
    from agentbench.execution.request import RunRequest
    from agentbench.record.schema import AttemptRecord


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
    model: str | None = None,
    temperature: float | None = None,
    max_steps: int | None = None,
    agent_command: str | None = None,
    agent_files: str | os.PathLike[str] | None = None,
    repeats: int = 1,
    seed: int = PROTOCOL_SEED,
    workers: int = 1,
    sandbox: str = "auto",
    prices: str | os.PathLike[str] | None = None,
    total_usd: float | None = None,
    out: str | os.PathLike[str] = RUNS,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Run an agent, or several variants, on tasks. Each attempt runs in a sandbox and is graded in a fresh one.

    The arguments are the options of `ab run`. `agent` is a name, or a factory such as `ab.agent` makes; `suite` is another
    way to name the tasks of a suite. `on_event` is called with each event of the progress.

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
    from agentbench.execution.config import CliChoices  # noqa: PLC0415 - slow import
    from agentbench.execution.request import RunRequest, plan_attempts, require_agents  # noqa: PLC0415

    if (tasks is None) == (suite is None):
        raise InputError("give either tasks or suite")
    named = suite if tasks is None else tasks
    assert named is not None  # noqa: S101 - checked above
    found = resolve_tasks(named, Path(tasks_dir))
    request = RunRequest(
        suite=_suite_of(found),
        tasks_dir=str(Path(tasks_dir).absolute()) if suite else "",
        task_paths=() if suite else tuple(str(task.folder.absolute()) for task in found),
        variants=tuple(variants),
        choices=CliChoices(
            name=name,
            agent=agent if agent is None or isinstance(agent, str) else _define(agent),
            model=model,
            temperature=temperature,
            max_steps=max_steps,
            agent_command=agent_command,
            agent_files=None if agent_files is None else Path(agent_files),
        ),
        repeats=repeats,
        seed=seed,
        workers=workers,
        sandbox=sandbox,
        prices=None if prices is None else str(Path(prices).absolute()),
        total_usd=total_usd,
        out=Path(out),
    )
    rows = plan_attempts(found, request)
    require_agents(rows)
    return _run_rows(rows, request, on_event)


def grade(
    task: LoadedTask | str | os.PathLike[str],
    patch: str | bytes,
    *,
    name: str = "patch",
    sandbox: str = "auto",
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
    from agentbench.execution.config import CliChoices  # noqa: PLC0415 - slow import
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
        sandbox=sandbox,
        out=Path(out),
    )
    return _run_rows(rows, request, on_event).attempts[0]


def _run_rows(rows: Sequence[PlanRow], request: RunRequest, on_event: OnEvent | None) -> RunResult:
    from agentbench.api.execution import execute_study  # noqa: PLC0415 - slow import
    from agentbench.execution.study import start_study  # noqa: PLC0415

    with start_study(rows, request, EventObserver(on_event)) as study:
        return RunResult(execute_study(study).runs)


def _define(factory: AgentFactory) -> str:
    """Make an agent of this process known under the name of its factory, and return the name."""
    from agentbench.agents.registry import define_agent  # noqa: PLC0415 - slow import

    name = getattr(factory, "__name__", "")
    if not name.isidentifier():
        raise InputError("agent must be a name, or a function that makes an agent", remedy="decorate it with @ab.agent")
    define_agent(name, factory)
    return name


def _suite_of(tasks: Sequence[LoadedTask]) -> str:
    """Return the suite of the tasks, for the name of the run directory; several suites are joined."""
    return "+".join(sorted({task.task.suite for task in tasks}))
