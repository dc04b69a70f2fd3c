"""The request of one `ab run`: its tasks, its variants and its options.

The request is kept in `run.json`, so that resuming a run asks for the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentbench.contract.load import LoadedTask
from agentbench.contract.suite import find_tasks, load_suite
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.problems import Problems
from agentbench.core.protocol import PROTOCOL_SEED
from agentbench.core.text import shell_quoted
from agentbench.execution.config import CliChoices, Configuration, resolve
from agentbench.execution.evidence import NO_STORE, StoreOptions
from agentbench.execution.executor_options import ExecutorOptions
from agentbench.execution.plan import PlanRow, make_plan
from agentbench.policy.prices import MICRO
from agentbench.record.run_directory import RunDirectory
from agentbench.record.run_state import is_imported

if TYPE_CHECKING:
    from agentbench.execution.variant_file import VariantFile

VARIANTS = Path("configs/variants")
LISTS = ("task_paths", "variants", "scorers", "monitors", "from_python")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The options of one `ab run`, `ab run-task` or `ab grade`, independent of the command line they came from."""

    suite: str
    tasks_dir: str
    task_paths: tuple[str, ...]
    variants: tuple[str, ...]
    choices: CliChoices
    repeats: int = 1
    seed: int = PROTOCOL_SEED
    workers: int = 1
    executor: str = "local"
    ray_address: str = "auto"
    sandbox: str = "auto"
    fresh_setup: bool = False
    prices: str | None = None
    task_usd: float | None = None
    total_usd: float | None = None
    operator: bool = False
    lenient: bool = False
    judge_model: str | None = None
    judge_repeats: int = 1
    model_patience: float = 600.0
    """Seconds that a request waits for a model service that is unavailable."""
    preflight: bool = True
    """Whether every model service is asked for one token before the run starts."""
    preflight_wait: float = 20.0
    """Seconds that each service may take to answer that."""
    out: Path = Path("artifacts/runs")
    selection: dict[str, object] | None = None
    """How the tasks were selected among those of the suite; None if all of them were."""
    stop_when: dict[str, object] | None = None
    """The stopping rule of the comparison, as `statistics.sequential.rules` writes it; None: every attempt is made."""
    store: StoreOptions = NO_STORE
    scorers: tuple[str, ...] = ()
    """Scorers of plug-ins that run besides those of the tasks."""
    monitors: tuple[str, ...] = ()
    """Monitors of plug-ins."""
    from_python: tuple[str, ...] = ()
    """Objects that were passed in from Python, as `KIND NAME`. Only the process that started the run has them."""

    @property
    def executor_options(self) -> ExecutorOptions:
        return ExecutorOptions(self.executor, self.workers, self.ray_address)

    @property
    def preflight_limit(self) -> float | None:
        """Return the seconds that a service may take to answer before the run starts; None if none is asked."""
        return self.preflight_wait if self.preflight else None

    def as_json(self) -> dict[str, Any]:
        value = {**asdict(self), "store": self.store.as_json()}
        return json.loads(json.dumps(value, default=str))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunRequest:
        """Raises TypeError, ValueError or KeyError if the value is not a request."""
        choices = dict(value["choices"])
        for name in ("agent_files", "script"):
            choices[name] = Path(choices[name]) if choices[name] else None
        lists = {name: tuple(value.get(name, ())) for name in LISTS}
        store = StoreOptions.from_json(value.get("store"))
        return cls(**{**value, **lists, "choices": CliChoices(**choices), "out": Path(value["out"]), "store": store})


def recorded_request(run: RunDirectory) -> RunRequest:
    """Return the request that a run was started with, with the caps of its last continuation.

    Raises:
        InputError: `run.json` has none that can be used, the run was imported, or it is a stage of a pilot.
    """
    if is_imported(run.path):
        msg = f"{run.path} was imported from another tool, so it cannot be resumed or repeated"
        raise InputError(msg, remedy="continue it with the tool that made it, and import it again")
    if run.meta.get("pilot") is not None:
        remedy = f"continue the pilot with `ab pilot run {shell_quoted(run.path.absolute().parent.parent)}`"
        raise InputError(f"{run.path} is a stage of a pilot, which has a plan for all methods", remedy=remedy)
    recorded = run.meta.get("request")
    try:
        if isinstance(recorded, dict):
            caps = {name: micro / MICRO for name, micro in run.resumed_caps().items()}
            request = RunRequest.from_json({**recorded, **caps})
            if request.from_python:
                from agentbench.execution.extensions import require_passed_in  # noqa: PLC0415 - slow import

                require_passed_in(request.from_python)
            return request
    except (TypeError, ValueError, KeyError):
        pass
    raise InputError(f"{run.path}/run.json has no usable request, so the run cannot be resumed")


def recorded_tasks(run: RunDirectory, request: RunRequest) -> tuple[LoadedTask, ...]:
    """Load the tasks that a run was started with. Those that are missing now are left out; tasks added later too.

    Raises:
        ContractError: a task is invalid, or the suite is missing.
    """
    if request.task_paths:
        tasks = tuple(task for path in request.task_paths for task in find_tasks(Path(path)))
    else:
        tasks = load_suite(request.suite, Path(request.tasks_dir)).tasks
    listed = run.meta.get("tasks")
    return tuple(task for task in tasks if task.id in listed) if isinstance(listed, list) else tasks


def plan_attempts(tasks: Sequence[LoadedTask], request: RunRequest) -> tuple[PlanRow, ...]:
    """List every attempt that the request asks for, in the order in which they start.

    Raises:
        InputError: unknown variant, or both variants and an agent.
    """
    problems = Problems()
    rows = collect_attempts(tasks, request, problems)
    problems.raise_all()
    return rows


def collect_attempts(tasks: Sequence[LoadedTask], request: RunRequest, problems: Problems) -> tuple[PlanRow, ...]:
    """List the attempts of `plan_attempts`, but add mistakes to `problems` and leave out the variants that have one."""
    if request.variants and request.choices.agent:
        msg = "--variant and --agent cannot be combined: a variant names its own agent"
        problems.add(InputError(msg, remedy="give either --variant or --agent"))
    if request.choices.name and len(request.variants) > 1:
        problems.add(InputError("--name names one method; several variants have names of their own"))
    loaded = [problems.collect(partial(_usable_variant, name, request)) for name in request.variants]
    variants = [variant for variant in loaded if variant is not None]
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        msg = f"two variants have the same name: {', '.join(names)}"
        problems.add(InputError(msg, remedy="change `name` in one of them"))
        return ()
    methods = variants if request.variants else [None]
    plan = [(task, [resolve(task, variant, request.choices) for variant in methods]) for task in tasks]
    return make_plan(plan, repeats=request.repeats, seed=request.seed)


def _usable_variant(name: str, request: RunRequest) -> VariantFile:
    from agentbench.execution.variant_file import load_variant  # noqa: PLC0415 - grading a patch reads no variant

    variant = load_variant(name, VARIANTS)
    if variant.entrypoint == "command" and not (variant.command or request.choices.agent_command):
        raise InputError(f"variant {variant.name} has no command", remedy="add `command: sh solve.sh` to its file")
    return variant


def require_agents(rows: Sequence[PlanRow]) -> None:
    """Reject bad agents before a run directory exists.

    Raises:
        InputError: unknown agent, one that lacks a model, a script, a command, a folder or the task's reference, or one that
            does not support a task's turns or strict stages.
    """
    from agentbench.agents.registry import (  # noqa: PLC0415 - slow import
        require_agent,
        require_setup,
        require_tools,
        require_turns,
    )
    from agentbench.execution.agent_setup import agent_setup  # noqa: PLC0415

    problems = Problems()
    for row in {(row.task.id, row.configuration.variant): row for row in rows}.values():
        agent, place = row.configuration.agent, variant_place(row.configuration, "agent")
        problems.collect(partial(require_tools, agent, row.task.task), place)
        problems.collect(partial(require_turns, agent, len(row.task.task.turns)), place)
        has_model = row.configuration.value("model") is not None
        chosen = row.configuration.settings["agent"].origin != "default"
        problems.collect(partial(require_agent, agent, has_model=has_model, chosen=chosen), place)
        problems.collect(partial(require_setup, agent, agent_setup(row)), place)
    problems.raise_all()


def variant_place(configuration: Configuration, setting: str) -> str:
    """Return the place of a setting that a variant file gives, for messages; empty if it comes from elsewhere."""
    return f"variant {configuration.variant}: " if configuration.settings[setting].origin == "variant" else ""
