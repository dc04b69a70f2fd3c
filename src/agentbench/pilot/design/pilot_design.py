"""Compute and write what a pilot declares before it is frozen: plan, power analysis, cost projection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentbench.contract.problem import InvalidFileError
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError
from agentbench.execution.models import read_prices
from agentbench.execution.plan import PlanRow, seeds
from agentbench.execution.request import require_agents
from agentbench.pilot.design.cost_figure import cost_figure
from agentbench.pilot.design.cost_model import Projection, inputs_json, project_costs, projection_text
from agentbench.pilot.design.efficacy_rule import schedule_problem
from agentbench.pilot.design.methods import configurations
from agentbench.pilot.design.pilot_file import PilotFile
from agentbench.pilot.design.plan import PlanLine, design_problems, make_plan, parse_plan, plan_differences, plan_text
from agentbench.pilot.design.power_analysis import PowerAnalysis, analyse_power, power_json
from agentbench.pilot.design.read_pilot import pilot_document, read_pilot
from agentbench.pilot.design.sample import Sample, load_sample
from agentbench.pilot.folder import (
    COST_FIGURE,
    COST_INPUTS,
    COST_PROJECTION,
    PLAN,
    POWER,
    REGISTRATION,
    json_text,
    read_text,
    write_text,
)


@dataclass(frozen=True, slots=True)
class PilotDesign:
    """A pilot as its files declare it, with the plan that follows."""

    folder: Path
    pilot: PilotFile
    sample: Sample
    lines: tuple[PlanLine, ...]

    @property
    def power(self) -> PowerAnalysis:
        return analyse_power(self.pilot.power, len(self.sample.tasks), self.pilot.stages.full.repeats, self.pilot.seed)

    @property
    def projection(self) -> Projection:
        return project_costs(self.pilot, self.lines)

    def rows(self, lines: Sequence[PlanLine]) -> list[PlanRow]:
        """Return the attempts of some lines, ready to run.

        Raises:
            InputError: a method cannot attempt a task.
        """
        tasks = self.sample.by_id()
        resolved = configurations(self.pilot, self.folder, self.sample.tasks)
        by_repeat = seeds(self.pilot.seed, self.pilot.stages.full.repeats)
        return [
            PlanRow(tasks[line.task_id], resolved[line.task_id, line.method], line.repeat, by_repeat[line.repeat - 1])
            for line in lines
        ]


def read_design(folder: Path) -> PilotDesign:
    """Read `pilot.yaml` and its tasks, and compute the plan.

    Raises:
        ContractError: `pilot.yaml` or a task is invalid, or the design cannot be used; with all problems.
        InputError: a method cannot attempt a task, or the price table is invalid.
    """
    pilot = read_pilot(folder)
    read_prices(prices_file(pilot, folder))
    sample = load_sample(pilot, folder)
    lines = make_plan(sample.planned, pilot.names, pilot.stages, pilot.seed)
    design = PilotDesign(folder, pilot, sample, lines)
    problems = list(design_problems(sample.planned, lines))
    late = schedule_problem(pilot, len(sample.tasks)) if len(sample.tasks) > 1 else ""
    problems += [(("stopping", "efficacy"), late)] if late else []
    if problems:
        document = pilot_document(folder)
        raise InvalidFileError(document.file, [document.problem(path, message) for path, message in problems])
    require_agents([row for row in design.rows(lines) if row.configuration.patch is None])
    return design


def prices_file(pilot: PilotFile, folder: Path) -> Path | None:
    return None if pilot.prices is None else folder / pilot.prices


def write_plan_files(design: PilotDesign) -> PowerAnalysis:
    """Write plan, power analysis, cost inputs, cost projection and its figure.

    Raises:
        RecordError: a file cannot be written.
    """
    folder, power, projection = design.folder, design.power, design.projection
    write_text(folder / PLAN, plan_text(design.lines))
    write_text(folder / POWER, json_text(power_json(power)))
    write_text(folder / COST_INPUTS, json_text(inputs_json(projection)))
    write_text(folder / COST_PROJECTION, projection_text(projection))
    write_text(folder / COST_FIGURE, cost_figure(projection, design.pilot.budgets.total))
    return power


def require_not_frozen(folder: Path) -> None:
    """
    Raises:
        InputError: the pilot is frozen.
    """
    if (folder / REGISTRATION).exists():
        remedy = "edit pilot.yaml and run `ab pilot freeze --amend --reason …`, which plans again and links both registrations"
        raise InputError(f"{folder} is frozen; its plan cannot be written again", remedy=remedy)


def require_written_plan(design: PilotDesign) -> None:
    """Compare `plan.csv` with the plan that `pilot.yaml` gives. Fast: it simulates nothing.

    Raises:
        ContractError: it differs, also if a method lacks a repeat; lists the differences.
        InputError: the file is missing.
    """
    _refuse_differences(_plan_problems(design))


def require_written_plan_files(design: PilotDesign) -> None:
    """Compare the files of the folder with what `pilot.yaml` gives.

    Raises:
        ContractError: a file differs, also if a method lacks a repeat; lists the differences.
        InputError: a file is missing.
    """
    folder, problems = design.folder, _plan_problems(design)
    computed = {
        POWER: json_text(power_json(design.power)),
        COST_INPUTS: json_text(inputs_json(design.projection)),
        COST_PROJECTION: projection_text(design.projection),
    }
    problems += [
        f"{name}: differs from what pilot.yaml gives"
        for name, wanted in computed.items()
        if read_text(folder / name) != wanted
    ]
    _refuse_differences(problems)


def _plan_problems(design: PilotDesign) -> list[str]:
    path = design.folder / PLAN
    text = read_text(path)
    problems = list(plan_differences(parse_plan(text, str(path)), design.lines, design.pilot.names))
    if not problems and text != plan_text(design.lines):
        problems.append(f"{PLAN}: differs from the plan of pilot.yaml in its formatting")
    return problems


def _refuse_differences(problems: Sequence[str]) -> None:
    if problems:
        raise ContractError(
            "the files of the plan do not follow from pilot.yaml",
            problems=tuple(problems),
            remedy="write them again with `ab pilot plan`",
        )
