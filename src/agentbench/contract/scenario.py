"""Load `scenario.yaml`: scorers, judge and weights of a whole suite."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentbench.contract.problem import InvalidFileError
from agentbench.contract.schema import Judge, Model, Scorer
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.scorers import scorer_list_problems
from agentbench.contract.yaml_document import read_document

SCENARIO_NAME = "scenario.yaml"

Share = Annotated[float, Field(ge=0, le=1)]


class Weights(Model):
    """Weights of the graded score, which sum to 1. Set per suite, never per task."""

    minimal: Share = 0.4
    trace: Share = 0.2
    maintainability: Share = 0.4


class Scenario(Model):
    scorers: tuple[Scorer, ...] = ()
    judge: Judge | None = None
    weights: Weights = Weights()


def load_scenario(suite_folder: Path) -> Scenario:
    """Load the scenario of a suite; without a file, return the defaults.

    Raises:
        ContractError: with every problem in the file.
    """
    path = suite_folder / SCENARIO_NAME
    if not os.path.lexists(path):
        return Scenario()
    document = read_document(path)
    validated = validate_document(document, Scenario)
    scenario, problems = validated.model, list(validated.problems)
    if scenario is None or problems:
        raise InvalidFileError(document.file, problems)
    weights = scenario.weights
    total = weights.minimal + weights.trace + weights.maintainability
    if not math.isclose(total, 1.0, abs_tol=1e-9):
        problems.append(document.problem(("weights",), f"expected weights that sum to 1; they sum to {total:g}"))
    problems += [document.problem(path, message) for path, message in scorer_list_problems(scenario.scorers)]
    if problems:
        raise InvalidFileError(document.file, problems)
    return scenario
