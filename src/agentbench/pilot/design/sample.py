"""The tasks of a pilot: loaded from its suites, with their strata and identities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentbench.contract.identity import identify
from agentbench.contract.load import LoadedTask
from agentbench.contract.selection import Selection, strata_of
from agentbench.contract.suite import load_suite
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.plan import PlannedTask

ONE_STRATUM = "all"


@dataclass(frozen=True, slots=True)
class Sample:
    """The tasks that take part, sorted by id."""

    tasks: tuple[LoadedTask, ...]
    planned: tuple[PlannedTask, ...]

    def by_id(self) -> dict[str, LoadedTask]:
        return {task.id: task for task in self.tasks}


def load_sample(pilot: PilotFile, folder: Path) -> Sample:
    """Load the tasks of all suites.

    Raises:
        ContractError: a suite or a task is invalid, two tasks have the same id, or a task lacks a stratum.
        InputError: a pattern matches no task.
    """
    tasks: list[LoadedTask] = []
    for entry in pilot.suites:
        tasks_dir = folder / entry.tasks_dir if entry.tasks_dir is not None else folder
        suite = load_suite(entry.name, tasks_dir)
        tasks += Selection(patterns=entry.tasks).of(suite.tasks, f"suite {entry.name}")
    tasks.sort(key=lambda task: task.id)
    problems = [*_same_ids(tasks), *_caps(tasks, pilot.budgets.run)]
    planned = tuple(PlannedTask(task.id, stratum_of(task, pilot.strata)) for task in tasks)
    for task in tasks:
        missing = [key for key in pilot.strata if key not in strata_of(task)]
        problems += [f"{task.file}: strata.{key}: missing; tasks are stratified by it" for key in missing]
    if problems:
        raise ContractError(f"{len(problems)} problems with the tasks of the pilot", problems=tuple(problems))
    return Sample(tuple(tasks), planned)


def stratum_of(task: LoadedTask, keys: Sequence[str]) -> str:
    """Return the stratum of a task as text, such as `ecosystem=python kind=bugfix`."""
    values = strata_of(task)
    return " ".join(f"{key}={values.get(key, '')}" for key in keys) or ONE_STRATUM


def task_identities(sample: Sample) -> list[dict[str, Json]]:
    """Return what a registration freezes of every task."""
    identities: list[dict[str, Json]] = []
    for task, planned in zip(sample.tasks, sample.planned, strict=True):
        ids = identify(task)
        identities.append(
            {
                "task_id": task.id,
                "suite": task.task.suite,
                "stratum": planned.stratum,
                "contract_id": ids.contract_id,
                "task_digest": ids.task_digest,
                "acceptance_id": ids.acceptance_id,
                "weights": None if task.weights is None else task.weights.model_dump(mode="json"),
            }
        )
    return identities


def _same_ids(tasks: Sequence[LoadedTask]) -> list[str]:
    first: dict[str, LoadedTask] = {}
    problems = []
    for task in tasks:
        earlier = first.setdefault(task.id, task)
        if earlier is not task:
            problems.append(f"{task.file}: id: {task.id} is also the id of {earlier.file}")
    return problems


def _caps(tasks: Sequence[LoadedTask], cap: float) -> list[str]:
    return [
        f"{task.file}: budget.usd: {task.task.budget.usd:g} is more than one attempt may cost (budgets.run: {cap:g})"
        for task in tasks
        if task.task.budget.usd > cap
    ]
