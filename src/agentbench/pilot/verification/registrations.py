"""Verify registrations: their frozen files, and what those files must follow from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import AgentBenchError
from agentbench.execution.version import harness_version
from agentbench.pilot.design.cost_figure import cost_figure
from agentbench.pilot.design.cost_model import inputs_json, project_costs, projection_text
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.plan import PlannedTask, make_plan, plan_text
from agentbench.pilot.design.power_analysis import analyse_power, power_json
from agentbench.pilot.design.read_pilot import read_pilot
from agentbench.pilot.folder import (
    COST_FIGURE,
    COST_INPUTS,
    COST_PROJECTION,
    PLAN,
    POWER,
    REGISTRATIONS,
    json_text,
    read_text,
)
from agentbench.pilot.pilot_state import PilotState
from agentbench.pilot.registration.registration import Registration
from agentbench.pilot.verification.result import PilotVerification

CURRENT_RULES = 2
"""First schema version of registrations whose plan decides the ids of attempts, with power simulated by the deciding test."""


def made_by_this_version(registration: Registration) -> bool:
    """Return whether this version of the harness made a pilot. Another one may word evidence or draw figures differently."""
    return registration.harness_version == harness_version()


def check_registration(state: PilotState, registration: Registration, result: PilotVerification) -> None:
    result.counts["registrations"] += 1
    copy = state.folder / REGISTRATIONS / str(registration.number)
    folders = [copy, state.folder] if registration == state.registration else [copy]
    for folder in folders:
        for name, sha256 in registration.files.items():
            try:
                text = read_text(folder / name)
            except AgentBenchError as error:
                result.add("missing", _place(state, folder / name), error.message)
                continue
            if sha256_hex(text.encode()) != sha256:
                result.add("changed", _place(state, folder / name), "differs from the registration")
    if result.ok:
        _check_plan(state, registration, copy, result)
        if registration == state.registration and made_by_this_version(registration):
            _check_figure(state, result)


def _check_figure(state: PilotState, result: PilotVerification) -> None:
    figure = cost_figure(project_costs(state.pilot, state.lines), state.pilot.budgets.total)
    path = state.folder / COST_FIGURE
    if path.exists() and read_text(path) != figure:
        result.add("changed", COST_FIGURE, "is not the figure of the cost projection")


def _check_plan(state: PilotState, registration: Registration, copy: Path, result: PilotVerification) -> None:
    """Compute plan, power analysis and cost projection again."""
    pilot = read_pilot(copy, registration.method_names)
    tasks = [PlannedTask(task.task_id, task.stratum) for task in registration.tasks]
    for name, text in _computed_files(pilot, tasks):
        if name == POWER and registration.schema_version < CURRENT_RULES:
            result.note("power.json not recomputed: an earlier version registered the pilot")
        elif read_text(copy / name) != text:
            result.add(
                "changed", _place(state, copy / name), "does not follow from pilot.yaml and the registered tasks"
            )


def _computed_files(pilot: PilotFile, tasks: Sequence[PlannedTask]) -> Iterator[tuple[str, str]]:
    lines = make_plan(tasks, pilot.names, pilot.stages, pilot.seed)
    projection = project_costs(pilot, lines)
    power = analyse_power(pilot.power, len(tasks), pilot.stages.full.repeats, pilot.seed)
    yield PLAN, plan_text(lines)
    yield POWER, json_text(power_json(power))
    yield COST_INPUTS, json_text(inputs_json(projection))
    yield COST_PROJECTION, projection_text(projection)


def _place(state: PilotState, path: Path) -> str:
    return str(path.relative_to(state.folder))
