"""Stopping rules of a paired comparison, declared before the first attempt, and the schedule of their looks.

The unit of the plan is a *block*: one task and repeat, done by both methods. The plan lists blocks repeat by repeat, so a
rule first sees every task once, then every task twice. A *look* is a moment at which the rule may decide. Looks are
placed by the number of blocks of the plan that are complete, so they do not depend on which attempt ends first.

Both rules are symmetric: exchanging the two methods exchanges `a_better` and `b_better` and changes nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.statistics.intervals import ALPHA, Interval

MAX_LOOKS = 50
"""Beyond this, more looks save almost nothing and the boundaries take long to compute."""


CONDITIONAL_POWER = 0.1
DEFAULT_LOOKS = {"group_sequential": 5, "anytime": 20}


class Spending(StrEnum):
    """Error-spending functions of Lan and DeMets (1983): how much of alpha may be used until each look."""

    OBRIEN_FLEMING = "obrien_fleming"
    """Little at early looks; the last look keeps almost the level of a fixed design."""
    POCOCK = "pocock"
    """About the same level at every look: stops earlier for large effects, less power for small ones."""


@dataclass(frozen=True, slots=True)
class Futility:
    """Stop when a difference of `effect` has become unlikely to be found (stochastic curtailment).

    The rule stops when the conditional power, the probability of a significant result at the last look given the data
    and a true difference of `effect` in the direction of the data, is below `conditional_power`. It is non-binding:
    boundaries are computed as if it did not exist, so ignoring it does not raise the error rate. Source: Lan, Simon and
    Halperin 1982; Jennison and Turnbull 2000, chapter 10.
    """

    effect: float
    """The difference of pass rates that the study was planned to detect (0.1 is 10 points)."""
    conditional_power: float = CONDITIONAL_POWER

    def __post_init__(self) -> None:
        if not 0 < self.effect <= 1:
            raise ValueError(f"futility effect must be above 0 and at most 1, got {self.effect:g}")
        if not 0 < self.conditional_power < 1:
            raise ValueError(f"futility conditional_power must be between 0 and 1, got {self.conditional_power:g}")


@dataclass(frozen=True, slots=True)
class GroupSequential:
    """A fixed number of looks with an alpha-spending function (Lan and DeMets 1983; Jennison and Turnbull 2000).

    At look k the exact sign-flip test over tasks is significant if its p-value is at most the nominal level of that look,
    2(1 - Φ(c_k)), where c_k are the boundaries of the spending function at the planned information fractions (the
    significance level approach of Jennison and Turnbull, sections 3.3 and 3.8).
    """

    looks: int = DEFAULT_LOOKS["group_sequential"]
    spending: Spending = Spending.OBRIEN_FLEMING
    futility: Futility | None = None
    margin: float | None = None
    """Equivalence margin: stop when the adjusted interval of B - A lies inside ±margin. None: never equivalent."""
    alpha: float = ALPHA

    name = "group_sequential"

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class Anytime:
    """A betting confidence sequence for the mean difference of tasks, valid at every look and any sample size.

    Source: Waudby-Smith and Ramdas 2024 (JRSS B 86, 1); Howard, Ramdas, McAuliffe and Sekhon 2021 (Annals of Statistics
    49, 1055); Ramdas, Grünwald, Vovk and Shafer 2023 (Statistical Science 38, 576). See `confidence_sequence`.
    """

    looks: int = DEFAULT_LOOKS["anytime"]
    margin: float | None = None
    """As for `GroupSequential`."""
    alpha: float = ALPHA

    name = "anytime"

    def __post_init__(self) -> None:
        _check(self)


Rule = GroupSequential | Anytime


def _check(rule: Rule) -> None:
    if not 1 <= rule.looks <= MAX_LOOKS:
        raise ValueError(f"looks must be between 1 and {MAX_LOOKS}, got {rule.looks}")
    if not 0 < rule.alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {rule.alpha:g}")
    if rule.margin is not None and not 0 < rule.margin < 1:
        raise ValueError(f"margin must be between 0 and 1, got {rule.margin:g}")


@dataclass(frozen=True, slots=True)
class PlannedBlocks:
    """The planned maximum: every task, `repeats` times, by both methods. Its blocks are the total information."""

    tasks: int
    repeats: int

    def __post_init__(self) -> None:
        if self.tasks < 2 or self.repeats < 1:
            raise ValueError(f"expected at least 2 tasks and 1 repeat, got {self.tasks} and {self.repeats}")

    @property
    def blocks(self) -> int:
        return self.tasks * self.repeats

    @property
    def attempts(self) -> int:
        return 2 * self.blocks


def look_schedule(rule: Rule, planned: PlannedBlocks) -> tuple[int, ...]:
    """Return how many blocks of the plan are complete at each look: equally spaced, the last is the planned maximum.

    Raises:
        ValueError: the plan has fewer blocks than the rule has looks.
    """
    if rule.looks > planned.blocks:
        raise ValueError(f"{rule.looks} looks need at least {rule.looks} blocks, the plan has {planned.blocks}")
    return tuple(-(-planned.blocks * look // rule.looks) for look in range(1, rule.looks + 1))


@dataclass(frozen=True, slots=True)
class Block:
    """The outcome of one task and repeat for both methods: 1 passed, 0 not passed, None invalid (outside the rate).

    A block with an invalid attempt completes the schedule but adds no information.
    """

    task: str
    repeat: int
    a: int | None
    b: int | None


class SequentialOutcome(StrEnum):
    """The decision of a rule at a look."""

    CONTINUE = "continue"
    A_BETTER = "a_better"
    B_BETTER = "b_better"
    EQUIVALENT = "equivalent"
    FUTILE = "futile"
    INCONCLUSIVE = "inconclusive"
    """The planned maximum is reached without a decision."""

    @property
    def stops(self) -> bool:
        return self is not SequentialOutcome.CONTINUE


@dataclass(frozen=True, slots=True)
class SequentialDecision:
    """The state of a comparison at one look. Differences are B - A, the mean over tasks."""

    rule: Rule
    outcome: SequentialOutcome
    look: int
    looks: int
    blocks: int
    """Blocks of the plan that were complete at this look, including invalid ones."""
    planned_blocks: int
    tasks: int
    """Tasks with at least one valid block."""
    difference: float | None
    """None without a valid block."""
    statistic: float
    """Group sequential: signed normal quantile of the test's p-value. Anytime: the larger of the two e-values."""
    boundary: float
    """The rule decides for a method when |statistic| reaches this."""
    p_value: float
    """The p-value at this look alone. Not valid when looked at repeatedly; use `adjusted_p`."""
    adjusted_p: float
    """The smallest overall alpha at which this look would have decided for a method (repeated p-value)."""
    interval: Interval | None
    """Interval of B - A that is valid at all looks together (repeated confidence interval, or confidence sequence)."""
    conditional_power: float | None = None
    """For a rule with futility, before the last look."""

    @property
    def information_fraction(self) -> float:
        """Share of the planned information (blocks) at this look."""
        return self.blocks / self.planned_blocks


def rule_json(rule: Rule) -> dict[str, Json]:
    """Return the rule as it is recorded before the first attempt; `read_rule` is the inverse."""
    value: dict[str, Json] = {"rule": rule.name, "looks": rule.looks, "alpha": rule.alpha, "margin": rule.margin}
    if isinstance(rule, GroupSequential):
        futility = rule.futility
        value["spending"] = rule.spending.value
        value["futility"] = (
            {"effect": futility.effect, "conditional_power": futility.conditional_power} if futility else None
        )
    return value


def read_rule(value: Mapping[str, object]) -> Rule:
    """Build a rule from JSON or YAML, such as `{rule: group_sequential, looks: 5, spending: pocock}`.

    Raises:
        ValueError: unknown rule or key, or a value outside its range.
    """
    given = {key: item for key, item in value.items() if item is not None}
    kinds: Mapping[str, type[GroupSequential | Anytime]] = {kind.name: kind for kind in (GroupSequential, Anytime)}
    kind = kinds.get(str(given.pop("rule", None)))
    if kind is None:
        raise ValueError(f"rule must be group_sequential or anytime, got {value.get('rule')!r}")
    allowed = [field.name for field in fields(kind)]
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} of rule {kind.name}; it has {', '.join(allowed)}")
    looks = _number(given, "looks", DEFAULT_LOOKS[kind.name])
    if looks != int(looks):
        raise ValueError(f"looks must be an integer, got {looks:g}")
    margin, alpha = _number(given, "margin", 0.0) if "margin" in given else None, _number(given, "alpha", ALPHA)
    if kind is Anytime:
        return Anytime(int(looks), margin, alpha)
    futility = _futility(given["futility"]) if "futility" in given else None
    spending = _spending(given.get("spending", Spending.OBRIEN_FLEMING))
    return GroupSequential(int(looks), spending, futility, margin, alpha)


def _number(values: Mapping[str, object], key: str, default: float) -> float:
    value = values.get(key, default)
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise ValueError(f"{key} must be a number, got {value!r}")


def _spending(value: object) -> Spending:
    if value in tuple(Spending):
        return Spending(str(value))
    raise ValueError(f"spending must be {' or '.join(Spending)}, got {value!r}")


def _futility(value: object) -> Futility:
    if isinstance(value, Mapping) and {"effect"} <= set(value) <= {"effect", "conditional_power"}:
        return Futility(_number(value, "effect", 0.0), _number(value, "conditional_power", CONDITIONAL_POWER))
    raise ValueError(f"futility needs effect and optionally conditional_power, got {value!r}")
