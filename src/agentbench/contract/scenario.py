"""`scenario.yaml`: scorers, judge and weights of a whole suite."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentbench.contract.problem import refuse
from agentbench.contract.schema import Judge, Model, Scorer
from agentbench.contract.schema_problems import conform
from agentbench.contract.scorers import listed_problems
from agentbench.contract.yaml_document import read_document

SCENARIO_NAME = "scenario.yaml"

Share = Annotated[float, Field(ge=0, le=1)]


class Weights(Model):
    """Weights of the graded score; they sum to 1. A policy choice of the suite, never of a task."""

    minimal: Share = 0.4
    trace: Share = 0.2
    maintainability: Share = 0.4


class Scenario(Model):
    scorers: tuple[Scorer, ...] = ()
    judge: Judge | None = None
    weights: Weights = Weights()


def load_scenario(suite_folder: Path) -> Scenario:
    """The scenario of a suite; an empty one when there is no file.

    Raises:
        ContractError: with every problem of the file.
    """
    path = suite_folder / SCENARIO_NAME
    if not os.path.lexists(path):
        return Scenario()
    document = read_document(path)
    conformity = conform(document, Scenario)
    scenario, problems = conformity.model, list(conformity.problems)
    if scenario is None or problems:
        raise refuse(document.file, problems)
    weights = scenario.weights
    total = weights.minimal + weights.trace + weights.maintainability
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        problems.append(document.problem(("weights",), f"expected weights that sum to 1; they sum to {total:g}"))
    problems += [document.problem(path, message) for path, message in listed_problems(scenario.scorers)]
    if problems:
        raise refuse(document.file, problems)
    return scenario
