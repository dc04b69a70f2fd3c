"""Attempts and configurations for tests of decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentbench.core.reasons import InvalidCause, Outcome, RunStatus, TerminationCode
from agentbench.pilot.decisions.criteria import StageFacts
from agentbench.pilot.decisions.flakes import FlakeScreen, ScreenedTask
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.plan import PlanLine, PlannedTask, make_plan
from agentbench.pilot.design.power_analysis import PowerAnalysis, analyse_power
from tests.pilot.studies import PILOT

TASKS = ("four", "one", "three", "two")


def pilot(**sections: Any) -> PilotFile:
    return PilotFile.model_validate({**PILOT, **sections})


def lines(config: PilotFile, tasks: Sequence[str] = TASKS) -> tuple[PlanLine, ...]:
    planned = [PlannedTask(task, "s") for task in tasks]
    return make_plan(planned, config.names, config.stages, config.seed)


def attempt(line: PlanLine, *, passed: bool = True, **changes: Any) -> Observation:
    """Return the attempt of a line of the plan."""
    task, method, repeat = line.key
    values: dict[str, Any] = {
        "attempt_id": f"{line.order:026}",
        "task_id": task,
        "method": method,
        "agent": "reference" if method in {"good", "reference"} else "scripted",
        "repeat": repeat,
        "status": RunStatus.SUCCESS if passed else RunStatus.FAILURE,
        "passed": passed,
        "cause": None,
        "reason": None,
        "termination": TerminationCode.AGENT_STOPPED,
        "category": None,
        "cost": 0.5,
        "unit": "usd",
        "priced": True,
        "subscores": True,
        "checks": Outcome.PASS if passed else Outcome.FAIL,
        "patch": f"patch of {method} at {task}",
        "contract_id": f"contract of {task}",
    }
    return Observation(**{**values, **changes})


def violation(line: PlanLine) -> Observation:
    return attempt(
        line,
        passed=False,
        status=RunStatus.INVALID,
        cause=InvalidCause.SAFETY,
        termination=TerminationCode.SAFETY,
        checks=Outcome.ERROR,
    )


def screened(task: str, **changes: Any) -> ScreenedTask:
    values: dict[str, Any] = {
        "task_id": task,
        "contract_id": f"contract of {task}",
        "valid": True,
        "baseline": "fail",
        "reference": "pass",
        "flaky": (),
        "why": "",
    }
    return ScreenedTask(**{**values, **changes})


def screen(*tasks: ScreenedTask) -> FlakeScreen:
    given = {task.task_id: task for task in tasks}
    return FlakeScreen(repeats=2, tasks=tuple(given.get(task, screened(task)) for task in TASKS))


def power(config: PilotFile, tasks: int = 4) -> PowerAnalysis:
    return analyse_power(config.power, tasks, config.stages.full.repeats, config.seed)


def facts(config: PilotFile, observations: Sequence[Observation], **changes: Any) -> StageFacts:
    values: dict[str, Any] = {
        "pilot": config,
        "lines": lines(config),
        "observations": observations,
        "spent": sum(attempt.cost for attempt in observations),
        "screen": screen(),
        "power": power(config),
        "completed": frozenset(),
    }
    return StageFacts(**{**values, **changes})
