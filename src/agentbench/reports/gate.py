"""Regression gate: reads `gate.yaml` and checks a paired comparison against its conditions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from agentbench.contract.problem import in_order
from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError, InputError
from agentbench.reports.escape import plain
from agentbench.reports.number_format import amount, plural, points, points_limit
from agentbench.reports.paired import PairedReport, difference_interval
from agentbench.reports.paired_costs import common_unit, compared_costs, no_common_cost
from agentbench.statistics.comparability import join_names
from agentbench.statistics.intervals import Interval
from agentbench.statistics.noninferiority import Conclusion, non_inferior
from agentbench.statistics.trials import Rate

EXAMPLE = (
    "{rate: contract, max_drop: 0.05, non_inferiority: {margin: 0.1, alpha: 0.05}, max_cost_ratio: 1.5, "
    "no_new_safety: true, min_pairs: 20}"
)
MAX_WHY = 600


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


EXIT_CODES = {Conclusion.HOLDS: 0, Conclusion.FAILS: 1, Conclusion.UNDECIDED: 2}


@dataclass(frozen=True, slots=True)
class Condition:
    name: str
    conclusion: Conclusion
    why: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    conditions: tuple[Condition, ...]

    @property
    def conclusion(self) -> Conclusion:
        """FAILS if any condition fails, else UNDECIDED if any is undecided, else HOLDS."""
        conclusions = {condition.conclusion for condition in self.conditions}
        worst_first = (Conclusion.FAILS, Conclusion.UNDECIDED)
        return next((conclusion for conclusion in worst_first if conclusion in conclusions), Conclusion.HOLDS)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.conclusion]

    @property
    def line(self) -> str:
        """The verdict in one line for CI, with the conditions that decided it."""
        deciding = [condition for condition in self.conditions if condition.conclusion is self.conclusion]
        reasons = "; ".join(f"{condition.name}: {condition.why}" for condition in deciding)
        return f"GATE {self.conclusion.upper()}: {reasons}"

    def as_json(self) -> dict[str, Json]:
        return {
            "verdict": self.conclusion,
            "line": self.line,
            "exit_code": self.exit_code,
            "conditions": [
                {"name": condition.name, "verdict": condition.conclusion, "why": condition.why}
                for condition in self.conditions
            ],
        }


def read_gate(path: Path) -> GateFile:
    """
    Raises:
        InputError: the file cannot be read, is invalid, or has no condition.
    """
    document = read_document(path)
    validated = validate_document(document, GateFile)
    gate = validated.model
    if validated.problems or gate is None:
        problems = tuple(map(str, in_order(validated.problems)))
        raise ContractError(f"{path} is not a valid gate file", problems=problems, remedy=f"example: {EXAMPLE}")
    conditions = (gate.max_drop, gate.non_inferiority, gate.max_cost_ratio)
    if all(condition is None for condition in conditions) and not gate.no_new_safety:
        msg = f"{path} has no condition: add max_drop, non_inferiority, max_cost_ratio or no_new_safety"
        raise InputError(msg, remedy=f"example: {EXAMPLE}")
    return gate


def check_gate(gate: GateFile, report: PairedReport) -> GateVerdict:
    """Check a comparison, made on the gate's rate, against all conditions of the gate."""
    checks = (_sealed, _complete, _min_pairs, _max_drop, _non_inferiority, _max_cost_ratio, _no_new_safety)
    conditions = [check(gate, report) for check in checks]
    return GateVerdict(tuple(condition for condition in conditions if condition is not None))


def undecided(why: str) -> GateVerdict:
    """Return the verdict for runs that cannot be compared."""
    return GateVerdict((Condition("comparison", Conclusion.UNDECIDED, plain(why, MAX_WHY)),))


def _sealed(_gate: GateFile, report: PairedReport) -> Condition | None:
    """Leave the gate undecided if records were altered or have no seal, or if only one of two runs was graded here."""
    sides = (("A", report.a), ("B", report.b))
    doubts = [f"{name}: {doubt}" for name, side in sides if (doubt := side.seal_marks.doubt)]
    if doubts:
        return Condition("records", Conclusion.UNDECIDED, plain(f"{doubts[0]}, see `ab verify`", MAX_WHY))
    imported = [f"{name} is imported from {tool}" for name, side in sides if (tool := side.seal_marks.imported)]
    if not imported:
        return None
    graded = any(side.run and not side.run.imported for _, side in sides)
    why = plain(f"{', '.join(imported)}, not graded here", MAX_WHY)
    return Condition("records", Conclusion.UNDECIDED if graded else Conclusion.HOLDS, why)


def _complete(_gate: GateFile, report: PairedReport) -> Condition | None:
    """Leave the gate undecided if attempts have no result yet: those that finish first are often the easier ones."""
    missing = [
        f"{name}: {side.run.missing.sentence}"
        for name, side in (("A", report.a), ("B", report.b))
        if side.run and side.run.missing
    ]
    return Condition("complete", Conclusion.UNDECIDED, "; ".join(missing)) if missing else None


def _min_pairs(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.min_pairs is None:
        return None
    pairs = len(report.comparison.pairing.pairs)
    why = f"{plural(pairs, 'paired task')}, minimum {gate.min_pairs}"
    return Condition("min_pairs", Conclusion.HOLDS if pairs >= gate.min_pairs else Conclusion.UNDECIDED, why)


def _max_drop(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.max_drop is None:
        return None
    difference = report.comparison.difference
    change = points(difference, -gate.max_drop)
    why = f"{report.comparison.rate} rate changed by {change}, maximum drop {points_limit(gate.max_drop)}"
    # Tolerate rounding in the mean of fractions.
    holds = difference >= -gate.max_drop - 1e-12
    return Condition("max_drop", Conclusion.HOLDS if holds else Conclusion.FAILS, why)


def _non_inferiority(gate: GateFile, report: PairedReport) -> Condition | None:
    rule = gate.non_inferiority
    if rule is None:
        return None
    interval = _interval(report, 1 - 2 * rule.alpha)
    conclusion = non_inferior(interval, rule.margin, rule.alpha)
    if interval is None:
        why = "no confidence interval: the per-task differences have no variance"
        if report.stopped is not None:
            why = "the stopping rule has no interval of this confidence"
    else:
        failed = conclusion is Conclusion.FAILS
        limit, bound = ("at most", interval.high) if failed else ("at least", interval.low)
        bounded = f"B − A is {limit} {points(bound, -rule.margin)}"
        why = f"{bounded} (one-sided α = {rule.alpha:g}), margin {points_limit(-rule.margin)}"
    return Condition("non_inferiority", conclusion, why)


def _interval(report: PairedReport, confidence: float) -> Interval | None:
    """Return the interval of B - A. After a stopping rule it is the adjusted one, if it is at least as confident."""
    if report.stopped is None:
        return difference_interval(report.comparison, confidence)
    adjusted = report.interval
    return None if adjusted is None or adjusted.confidence < confidence else replace(adjusted, confidence=confidence)


def _max_cost_ratio(gate: GateFile, report: PairedReport) -> Condition | None:
    if gate.max_cost_ratio is None:
        return None
    compared = compared_costs(report)
    costs = [cost for cost in compared.costs if cost is not None and math.isfinite(cost)] if compared else []
    if compared is None or len(costs) < len(compared.costs):
        return Condition("max_cost_ratio", Conclusion.UNDECIDED, no_common_cost(report) or "the costs are too large")
    a, b = costs
    if a == 0:
        conclusion = Conclusion.HOLDS if b == 0 else Conclusion.UNDECIDED
        return Condition("max_cost_ratio", conclusion, f"an attempt of A costs 0, of B {b:.4g}")
    amounts = (f"A {amount(a)}, B {amount(b)}", plain(common_unit(report)), compared.basis)
    in_words = " ".join(filter(None, amounts))
    why = f"an attempt of B costs {b / a:.2f} times as much ({in_words}), maximum {gate.max_cost_ratio:g}"
    return Condition("max_cost_ratio", Conclusion.HOLDS if b / a <= gate.max_cost_ratio else Conclusion.FAILS, why)


def _no_new_safety(gate: GateFile, report: PairedReport) -> Condition | None:
    if not gate.no_new_safety:
        return None
    if report.new_safety:
        why = f"only B has known safety violations at {plain(join_names(report.new_safety))}"
        return Condition("no_new_safety", Conclusion.FAILS, why)
    if report.unknown_safety:
        why = f"the safety of {plural(report.unknown_safety, 'attempt')} of B is unknown"
        return Condition("no_new_safety", Conclusion.UNDECIDED, why)
    return Condition("no_new_safety", Conclusion.HOLDS, "no new safety violations")
