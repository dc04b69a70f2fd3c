"""Grading terms: the parts of the task and the rubric that the decision depends on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from agentbench.contract.schema import Check, Task
from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.execution_price import ExecutionPrice

WEIGHT_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class CheckTerm:
    """One check of the task. Mandatory checks decide, the others are diagnostics."""

    id: str
    mandatory: bool = True
    layer: str = "unit"

    @property
    def maintainability(self) -> bool:
        """Return whether this is a maintainability check: a static check that is not mandatory."""
        return self.layer == "static" and not self.mandatory


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the graded dimensions, from the suite or `--weights`, never from a task."""

    minimal: float
    trace: float
    maintainability: float

    def __post_init__(self) -> None:
        values = (self.minimal, self.trace, self.maintainability)
        if any(not 0 <= value <= 1 for value in values):
            raise InputError(f"weights must be numbers from 0 to 1, got {', '.join(f'{value:g}' for value in values)}")
        if abs(math.fsum(values) - 1) > WEIGHT_TOLERANCE:
            raise InputError(f"weights must sum to 1, got a sum of {math.fsum(values):g}")

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Weights:
        """Read a `weights` mapping of a scenario or file; every name must be present and known."""
        names = ("minimal", "trace", "maintainability")
        if set(values) != set(names):
            msg = f"weights must have exactly the keys {', '.join(names)}, got {', '.join(sorted(values)) or 'none'}"
            raise InputError(msg)
        return cls(**{name: float(values[name]) for name in names})


@dataclass(frozen=True, slots=True)
class Rubric:
    """The published numbers of `rubric.json`."""

    weights: Weights
    penalty_per_violation: float
    ok_weight: float
    validity_weight: float
    violation_weight: float
    review_paths: tuple[str, ...]


@cache
def _published() -> Mapping[str, Json]:
    data: dict[str, Json] = json.loads(Path(__file__).with_name("rubric.json").read_text(encoding="utf-8"))
    return data


def rubric_id(rubric: Rubric) -> str:
    """Identify the numbers that an attempt was graded with: the published file and the weights in force."""
    used: Json = {name: str(weight) for name, weight in asdict(rubric.weights).items()}
    text = json.dumps({key: value for key, value in _published().items() if key != "weights"}, sort_keys=True)
    return f"rubric@{digest({'published': text, 'weights': used})}"


@cache
def published_rubric() -> Rubric:
    data: Any = _published()
    decomposition = data["decomposition"]
    return Rubric(
        weights=Weights.of(data["weights"]),
        penalty_per_violation=data["penalty_per_violation"],
        ok_weight=decomposition["ok"],
        validity_weight=decomposition["val"],
        violation_weight=decomposition["viol"],
        review_paths=tuple(data["review_paths"]),
    )


@dataclass(frozen=True, slots=True)
class Caps:
    """The enforced caps; None if not declared."""

    active_sec: float | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything besides the facts that `decide` depends on."""

    checks: tuple[CheckTerm, ...]
    build: bool = False
    """Whether the task declares a build; False is the declared no-op of the build gate."""
    statics: int = 0
    """Number of static commands that the task declares."""
    lambda_: float = 1.0
    envelope_files: int = 5
    envelope_lines: int = 200
    judged_only: bool = False
    """The task has no workspace (`repo: none`), so only a judge can evaluate it."""
    caps: Caps = Caps()
    execution: ExecutionPrice = ExecutionPrice()
    """Price of the agent's commands, which count against the cost cap."""
    rubric: Rubric = field(default_factory=published_rubric)
    needs_briefing: bool = True
    """Whether a complete trace has a briefing: that of a patch made elsewhere has none."""
    tag_notes: bool = True
    """Whether notes become tags, where the taxonomy says so. Earlier versions had no such tags."""

    @property
    def mandatory(self) -> tuple[CheckTerm, ...]:
        return tuple(check for check in self.checks if check.mandatory)


def terms_of(
    task: Task,
    checks: Sequence[Check],
    *,
    caps: Caps | None = None,
    weights: Weights | None = None,
    execution: ExecutionPrice | None = None,
    needs_briefing: bool = True,
) -> Terms:
    """Return the terms of a task. `checks` are the loaded checks (short form expanded), `caps` the enforced caps."""
    oracle, budget = task.oracle, task.budget
    rubric = published_rubric()
    steps = task.agent.max_steps
    return Terms(
        checks=tuple(CheckTerm(id=check.id, mandatory=check.mandatory, layer=check.layer) for check in checks),
        build=oracle.build != "none",
        statics=0 if oracle.static == "none" else len(oracle.static),
        lambda_=task.rubric.lambda_,
        envelope_files=task.rubric.envelope.files,
        envelope_lines=task.rubric.envelope.lines,
        judged_only=task.repo == "none",
        needs_briefing=needs_briefing,
        caps=caps
        or Caps(
            active_sec=min(task.environment.timeout_sec, budget.wall_sec),
            tool_calls=steps if budget.tool_calls is None else min(steps, budget.tool_calls),
            tokens=budget.tokens,
            usd=budget.usd,
        ),
        execution=execution or ExecutionPrice(),
        rubric=rubric if weights is None else replace(rubric, weights=weights),
    )
