"""The terms an attempt is graded on: the contract and the rubric, reduced to what the decision needs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from agentbench.contract.schema import Check, Task
from agentbench.core.canonical import Json, digest
from agentbench.core.errors import InputError

WEIGHT_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class CheckTerm:
    """One check of the contract. Mandatory ones decide (A of P3.1), the others are diagnostics."""

    id: str
    mandatory: bool = True
    layer: str = "unit"

    @property
    def maintainability(self) -> bool:
        """A static check that does not decide is the contract's way to declare a maintainability check (P4.3)."""
        return self.layer == "static" and not self.mandatory


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the graded dimensions: of the suite or of `--weights`, never of a task."""

    minimal: float
    trace: float
    maintainability: float

    def __post_init__(self) -> None:
        values = (self.minimal, self.trace, self.maintainability)
        if any(not math.isfinite(value) or value < 0 for value in values):
            msg = f"weights must be numbers of at least 0, not {values}"
            raise InputError(msg)
        if abs(math.fsum(values) - 1) > WEIGHT_TOLERANCE:
            msg = f"weights must sum to 1, these sum to {math.fsum(values):g}"
            raise InputError(msg)

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Weights:
        """From a `weights` mapping of a scenario or file; a missing or unknown name is refused."""
        names = ("minimal", "trace", "maintainability")
        if set(values) != set(names):
            msg = f"weights need exactly the keys {', '.join(names)}, not {', '.join(sorted(values)) or 'none'}"
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
    data: dict[str, Json] = json.loads(files("agentbench.verdict").joinpath("rubric.json").read_text(encoding="utf-8"))
    return data


def rubric_id(rubric: Rubric) -> str:
    """Names the numbers that an attempt was graded by: the published file, with the weights that held."""
    weights = rubric.weights
    used: dict[str, Json] = {
        "minimal": str(weights.minimal),
        "trace": str(weights.trace),
        "maintainability": str(weights.maintainability),
    }
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
    """The caps that were enforced; None where none was declared."""

    active_sec: float | None = None
    tool_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What `decide` holds the facts against."""

    checks: tuple[CheckTerm, ...]
    build: bool = False
    """Whether the contract declares a build; False is the declared no-op of gate 2."""
    statics: int = 0
    """How many static commands the contract declares."""
    lambda_: float = 1.0
    envelope_files: int = 5
    envelope_lines: int = 200
    judged_only: bool = False
    """The task has no workspace (`repo: none`): there is nothing that gates could look at."""
    caps: Caps = Caps()
    rubric: Rubric = field(default_factory=published_rubric)

    @property
    def mandatory(self) -> tuple[CheckTerm, ...]:
        return tuple(check for check in self.checks if check.mandatory)


def terms_of(task: Task, checks: Sequence[Check], *, caps: Caps | None = None, weights: Weights | None = None) -> Terms:
    """The terms of a task. `checks` are the loaded ones (short form expanded); `caps` the ones really enforced."""
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
        caps=caps
        or Caps(
            active_sec=min(task.environment.timeout_sec, budget.wall_sec),
            tool_calls=steps if budget.tool_calls is None else min(steps, budget.tool_calls),
            tokens=budget.tokens,
            usd=budget.usd,
        ),
        rubric=rubric if weights is None else replace(rubric, weights=weights),
    )
