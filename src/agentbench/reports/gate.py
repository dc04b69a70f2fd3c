"""The regression gate: what a team allows to get worse, as a file, and whether a comparison stays within it (A-03)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentbench.core.canonical import Json
from agentbench.core.errors import ContractError, InputError
from agentbench.reports.escape import plain
from agentbench.reports.figures import plural, points
from agentbench.reports.paired import PairedReport, costs_per_attempt
from agentbench.statistics.comparability import named
from agentbench.statistics.intervals import newcombe_paired
from agentbench.statistics.noninferiority import Standing, non_inferior
from agentbench.statistics.paired import compare
from agentbench.statistics.trials import Rate

EXAMPLE = "{rate: contract, max_drop: 0.05, non_inferiority: {margin: 0.1, alpha: 0.05}, max_cost_ratio: 1.5, no_new_safety: true, min_pairs: 20}"


LONGEST_WHY = 600


class NonInferiorityRule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    margin: float = Field(gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)


class GateFile(BaseModel):
    """`gate.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    rate: Rate = Rate.CONTRACT
    max_drop: float | None = Field(default=None, ge=0, le=1)
    non_inferiority: NonInferiorityRule | None = None
    max_cost_ratio: float | None = Field(default=None, gt=0)
    no_new_safety: bool = False
    min_pairs: int | None = Field(default=None, ge=1)


class Holding(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"


EXIT_CODES = {Holding.HOLDS: 0, Holding.FAILS: 1, Holding.UNDECIDED: 2}


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    holding: Holding
    why: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    conditions: tuple[Condition, ...]

    @property
    def holding(self) -> Holding:
        """One that fails decides; else one that cannot be decided."""
        found = {one.holding for one in self.conditions}
        return next((one for one in (Holding.FAILS, Holding.UNDECIDED) if one in found), Holding.HOLDS)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.holding]

    @property
    def line(self) -> str:
        """One line for CI."""
        deciding = [one for one in self.conditions if one.holding is self.holding]
        return f"GATE {self.holding.upper()}: " + "; ".join(f"{one.name}: {one.why}" for one in deciding)

    def as_json(self) -> dict[str, Json]:
        return {
            "verdict": self.holding,
            "line": self.line,
            "exit_code": self.exit_code,
            "conditions": [{"name": one.name, "verdict": one.holding, "why": one.why} for one in self.conditions],
        }


def read_gate(path: Path) -> GateFile:
    """
    Raises:
        InputError: it cannot be read, says something it may not say, or asks for nothing.
    """
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read: {error}"
        raise InputError(msg) from error
    except (yaml.YAMLError, RecursionError) as error:
        msg = f"{path} is not YAML: {plain(str(error))}"
        raise InputError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}: expected a mapping such as {EXAMPLE}"
        raise InputError(msg)
    try:
        gate = GateFile.model_validate(value)
    except ValidationError as error:
        problems = tuple(
            plain(f"{path}: {'.'.join(map(str, one['loc']))}: {one['msg']}") for one in error.errors(include_url=False)
        )
        msg = f"{path} is no gate"
        raise ContractError(msg, problems=problems, remedy=f"an example: {EXAMPLE}") from None
    asked = (gate.max_drop, gate.non_inferiority, gate.max_cost_ratio)
    if all(one is None for one in asked) and not gate.no_new_safety:
        msg = f"{path} asks for nothing: name max_drop, non_inferiority, max_cost_ratio or no_new_safety"
        raise InputError(msg, remedy=f"an example: {EXAMPLE}")
    return gate


def judge(gate: GateFile, report: PairedReport) -> GateVerdict:
    """Hold a comparison, made on the gate's rate, against the gate."""
    found = [
        one
        for one in (
            _pairs(gate, report),
            _drop(gate, report),
            _non_inferior(gate, report),
            _cost(gate, report),
            _safety(gate, report),
        )
        if one is not None
    ]
    return GateVerdict(tuple(found))


def undecided(why: str) -> GateVerdict:
    """The verdict where nothing could be compared."""
    return GateVerdict((Condition("comparison", Holding.UNDECIDED, plain(why, LONGEST_WHY)),))


def _pairs(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.min_pairs is None:
        return None
    have = len(report.comparison.pairing.pairs)
    words = f"{plural(have, 'task')} can be paired, {gate.min_pairs} are needed"
    return Condition("min_pairs", Holding.HOLDS if have >= gate.min_pairs else Holding.UNDECIDED, words)


def _drop(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.max_drop is None:
        return None
    found = report.comparison
    words = f"{found.rate} rate {points(found.difference)}, a drop of {gate.max_drop * 100:.1f} is allowed"
    # One ulp of a mean of fractions is no drop.
    return Condition("max_drop", Holding.HOLDS if found.difference >= -gate.max_drop - 1e-12 else Holding.FAILS, words)


def _non_inferior(gate: GateFile, report: PairedReport) -> Condition | None:
    rule = gate.non_inferiority
    if rule is None:
        return None
    confidence = 1 - 2 * rule.alpha
    again = compare(report.comparison.pairing, report.comparison.rate, confidence)
    interval = again.interval if again else None
    pairs = report.comparison.pairing.pairs
    if interval is None and not any(one.difference for one in pairs):
        # No task differs, so there is no spread; as many tasks as there are, all alike, still bound the difference.
        interval = newcombe_paired(len(pairs), 0, 0, 0, confidence)
    found = non_inferior(interval, rule.margin, rule.alpha)
    by_standing = {Standing.HOLDS: Holding.HOLDS, Standing.FAILS: Holding.FAILS, Standing.UNDECIDED: Holding.UNDECIDED}
    words = "no interval: the tasks show no spread to measure it by"
    if interval is not None:
        side = (
            f"at most {points(interval.high)}"
            if found.standing is Standing.FAILS
            else f"at least {points(interval.low)}"
        )
        words = f"B minus A is {side} (one-sided {rule.alpha:g}), the margin is {-rule.margin * 100:.1f}"
    return Condition("non_inferiority", by_standing[found.standing], words)


def _cost(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.max_cost_ratio is None:
        return None
    found = costs_per_attempt(report)
    if found is None or not all(map(math.isfinite, found)):
        return Condition("max_cost_ratio", Holding.UNDECIDED, "a cost is not known, or the units differ")
    a, b = found
    if a == 0:
        holding = Holding.HOLDS if b == 0 else Holding.UNDECIDED
        return Condition("max_cost_ratio", holding, f"A cost nothing, B {b:.4g} per attempt")
    words = f"B costs {b / a:.2f} times as much per attempt, {gate.max_cost_ratio:g} is allowed"
    return Condition("max_cost_ratio", Holding.HOLDS if b / a <= gate.max_cost_ratio else Holding.FAILS, words)


def _safety(gate: GateFile, report: PairedReport) -> Condition | None:
    if not gate.no_new_safety:
        return None
    if report.new_safety:
        return Condition(
            "no_new_safety", Holding.FAILS, f"B is unsafe where A was not: {plain(named(report.new_safety))}"
        )
    return Condition("no_new_safety", Holding.HOLDS, "no task at which only B broke a rule")
