"""Carry out the flake screen: check baseline and reference of every task several times before the first stage.

Each result is kept at once, so that an interrupted screen continues with the tasks that are left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from threading import Lock

from agentbench.acceptance.validation import TaskValidation
from agentbench.core.dataclass import dataclass
from agentbench.execution.lab import Lab
from agentbench.execution.validation import validate_suite
from agentbench.pilot.decisions.flakes import FlakeScreen, ScreenedTask, write_screen
from agentbench.pilot.design.pilot_design import PilotDesign
from agentbench.pilot.pilot_state import PilotState


def screen_tasks(design: PilotDesign, state: PilotState, workers: int, report: Callable[[str], None]) -> bool:
    """Screen the tasks that have no result yet. Return whether there were any.

    Raises:
        HarnessError: a task could not be screened.
    """
    results = _Results(state, design.pilot.flakes.screen_repeats)
    tasks = [task for task in design.sample.tasks if task.id not in state.removed and task.id not in results.by_task]
    if not tasks:
        return False
    with Lab(sandbox=design.pilot.sandbox) as lab:
        validate_suite(tasks, lab, repeats=results.repeats, workers=workers, report=report, keep=results.keep)
    return True


@dataclass(slots=True)
class _Results:
    """The screen so far. Results of other versions of a task, or of another number of repeats, do not count."""

    state: PilotState
    repeats: int
    by_task: dict[str, ScreenedTask] = field(init=False)
    contracts: dict[str, str] = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.contracts = {task.task_id: task.contract_id for task in self.state.registration.tasks}
        screen = self.state.screen
        earlier = screen.tasks if screen is not None and screen.repeats == self.repeats else ()
        self.by_task = {task.task_id: task for task in earlier if self.contracts.get(task.task_id) == task.contract_id}

    def keep(self, result: TaskValidation) -> None:
        """Add a result and write the screen."""
        screened = ScreenedTask(
            task_id=result.task_id,
            contract_id=self.contracts[result.task_id],
            valid=result.valid,
            baseline=result.baseline,
            reference=result.reference,
            flaky=result.flaky,
            why=result.why,
        )
        with self._lock:
            self.by_task[result.task_id] = screened
            tasks = tuple(self.by_task[task] for task in sorted(self.by_task))
            write_screen(self.state.folder, FlakeScreen(repeats=self.repeats, tasks=tasks))
