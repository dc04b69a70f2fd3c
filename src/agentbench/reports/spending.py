"""Costs of a run: by component, by phase, with the price of reviews, and their distributions by stratum and outcome.

Reviews happen after an attempt is closed, so its record cannot hold their cost. Reports add it from the adjudications,
priced by the `review` row of the run's price table, and state it separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.reports.adjudications import Adjudication
from agentbench.reports.escape import Cell
from agentbench.reports.number_format import finite, total
from agentbench.reports.provenance import Origin, Provenance
from agentbench.reports.record_rows import PHASES, Row
from agentbench.statistics.quantiles import quantile

ALL = "all"
OUTCOMES = ("passed", "failed", "undecided")


@dataclass(frozen=True, slots=True)
class ReviewCosts:
    """Minutes of review, and their price."""

    minutes: Mapping[str, float]
    """By attempt."""
    price: Mapping[str, float]
    """By attempt, in the unit of its cost; missing where the price table has no row for reviews."""

    def cost(self, row: Row) -> float:
        return self.price.get(row.attempt_id, 0.0)

    @property
    def unpriced_minutes(self) -> float:
        return total([minutes for attempt, minutes in self.minutes.items() if attempt not in self.price])


def read_review_costs(
    adjudications: Sequence[Adjudication], rows: Sequence[Row], provenance: Provenance
) -> ReviewCosts:
    """Add up the reviews of each attempt, over all reviewers."""
    minutes: dict[str, float] = {}
    for adjudication in adjudications:
        minutes[adjudication.attempt_id] = minutes.get(adjudication.attempt_id, 0.0) + adjudication.minutes
    hourly = {task: origin.review_hour for task, origin in provenance.origins.items() if origin.review_hour}
    tasks = {row.attempt_id: row.task for row in rows if row.attempt_id in minutes}
    price = {attempt: minutes[attempt] / 60 * hourly[task] for attempt, task in tasks.items() if task in hourly}
    return ReviewCosts(minutes, price)


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs in one unit. Different units are never added."""

    unit: str
    lm: float
    exec: float
    human: float
    """Waiting for operators, and reviews."""
    overhead: float
    judge: float
    attempts: float
    """The recorded cost of the final attempts, without reviews."""
    passed: int
    """Number of passed attempts."""
    reviews: float
    """The part of `human` that was spent on reviews after the attempts."""
    phases: Mapping[str, float]
    """The total by phase, and `not split` for records without phases."""
    superseded: float
    """The cost of superseded attempts, which no other sum contains."""

    @property
    def total(self) -> float:
        return self.attempts + self.reviews

    @property
    def spent(self) -> float:
        """The recorded cost of all attempts, as in `--fail-on cost`, `ab view` and notifications: without reviews."""
        return self.attempts + self.superseded

    @property
    def per_pass(self) -> float | None:
        return self.total / self.passed if self.passed else None


def spending(
    rows: Sequence[Row], reviews: ReviewCosts, superseded: Mapping[str, float] = MappingProxyType({})
) -> tuple[Spending, ...]:
    """Return the known costs of these attempts, one entry per unit. `superseded` is the cost of those that they replaced."""
    units: dict[str, list[Row]] = {unit: [] for unit in superseded}
    for row in rows:
        if row.cost.known_total is not None:
            units.setdefault(row.cost.unit, []).append(row)
    return tuple(_spending(unit, group, reviews, superseded.get(unit, 0.0)) for unit, group in sorted(units.items()))


def _spending(unit: str, rows: Sequence[Row], reviews: ReviewCosts, superseded: float) -> Spending:
    reviewed = total([reviews.cost(row) for row in rows])
    return Spending(
        unit,
        lm=total([row.cost.lm for row in rows]),
        exec=total([row.cost.exec for row in rows]),
        human=total([row.cost.human for row in rows]) + reviewed,
        overhead=total([row.cost.overhead for row in rows]),
        judge=total([row.cost.judge for row in rows]),
        attempts=total([row.cost.total for row in rows]),
        passed=sum(row.passed for row in rows),
        reviews=reviewed,
        phases=_phases(rows, reviewed),
        superseded=superseded,
    )


def _phases(rows: Sequence[Row], reviewed: float) -> Mapping[str, float]:
    split = [row.cost.phases for row in rows if row.cost.phases is not None]
    phases = {name: total([costs[index] for costs in split]) for index, name in enumerate(PHASES)}
    phases["review"] += reviewed
    unsplit = total([row.cost.total for row in rows if row.cost.phases is None])
    return {**phases, "not split": unsplit} if unsplit else phases


# --- distributions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quartiles:
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles:
        ordered = sorted(values)
        return cls(*(quantile(ordered, share) for share in (0.25, 0.5, 0.75)))


@dataclass(frozen=True, slots=True)
class Distribution:
    """Quartiles over the attempts of one stratum with one outcome and one unit of cost."""

    dimension: str
    value: str
    outcome: str
    attempts: int
    unit: str
    cost: Quartiles | None
    """None if the costs are unknown; the unit is empty then."""
    tokens: Quartiles
    seconds: Quartiles


def distributions(rows: Sequence[Row], outcomes: Sequence[str], provenance: Provenance) -> tuple[Distribution, ...]:
    """Return the distributions over all attempts and over each stratum, by outcome, and together if there are several.

    Costs are the recorded ones, without reviews, as in time and cost to success.
    """
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    order = (ALL, *OUTCOMES)
    for row, outcome in zip(rows, outcomes, strict=True):
        for dimension, value in _strata_of(row, provenance):
            for group in (ALL, outcome):
                groups.setdefault((dimension, value, group, _unit(row)), []).append(row)
    dimensions = (ALL, *provenance.dimensions)
    keys = sorted(groups, key=lambda key: (dimensions.index(key[0]), key[1], order.index(key[2]), key[3]))
    return tuple(
        Distribution(
            dimension,
            value,
            outcome,
            len(group),
            unit,
            cost=Quartiles.of([row.cost.total for row in group]) if unit else None,
            tokens=Quartiles.of([row.usage.prompt_tokens + row.usage.completion_tokens for row in group]),
            seconds=Quartiles.of([row.duration for row in group]),
        )
        for dimension, value, outcome, unit in keys
        for group in (groups[dimension, value, outcome, unit],)
        if outcome != ALL
        or all(len(groups.get((dimension, value, other, unit), ())) < len(group) for other in OUTCOMES)
    )


def _unit(row: Row) -> str:
    """Return the unit of a known cost, else an empty text."""
    return "" if row.cost.known_total is None else row.cost.unit


def _strata_of(row: Row, provenance: Provenance) -> Iterable[tuple[str, str]]:
    origin = provenance.origins.get(row.task)
    yield ALL, ALL
    for dimension in provenance.dimensions:
        yield dimension, (origin.strata.get(dimension) if origin else None) or "not stated"


# --- CSV and JSON -------------------------------------------------------------------------------------------------------------


COST_COLUMNS = (
    "cost_lm", "cost_exec", "cost_human", "cost_overhead", "cost_judge", "cost_total", *(f"phase_{name}" for name in PHASES),
    "overrun", "review_minutes", "strata",
)  # fmt: skip


def cost_cells(row: Row, reviews: ReviewCosts, origin: Origin | None) -> dict[str, Cell]:
    """Return the cells of COST_COLUMNS for one attempt. Reviews are part of `cost_human` and `cost_total`."""
    cost, phases = row.cost, row.cost.phases or (None,) * len(PHASES)
    if cost.known_total is None:
        return {**dict.fromkeys(COST_COLUMNS), **_other_cells(row, reviews, origin)}
    return {
        "cost_lm": cost.lm,
        "cost_exec": cost.exec,
        "cost_human": cost.human + reviews.cost(row),
        "cost_overhead": cost.overhead,
        "cost_judge": cost.judge,
        "cost_total": cost.total + reviews.cost(row),
        **{f"phase_{name}": value for name, value in zip(PHASES, phases, strict=True)},
        **_other_cells(row, reviews, origin),
    }


def _other_cells(row: Row, reviews: ReviewCosts, origin: Origin | None) -> dict[str, Cell]:
    return {
        "overrun": row.overrun,
        "review_minutes": reviews.minutes.get(row.attempt_id, 0.0),
        "strata": "; ".join(f"{name}={value}" for name, value in origin.strata.items()) if origin else "",
    }


def spending_json(costs: Spending) -> dict[str, Json]:
    return {
        "unit": costs.unit,
        "lm": finite(costs.lm),
        "exec": finite(costs.exec),
        "human": finite(costs.human),
        "overhead": finite(costs.overhead),
        "judge": finite(costs.judge),
        "total": finite(costs.total),
        "per_pass": finite(costs.per_pass),
        "reviews": finite(costs.reviews),
        "superseded": finite(costs.superseded),
        "spent": finite(costs.spent),
        "phases": {name: finite(value) for name, value in costs.phases.items()},
    }


def distribution_json(distribution: Distribution) -> dict[str, Json]:
    def quartiles(values: Quartiles) -> list[Json]:
        return [finite(values.low), finite(values.median), finite(values.high)]

    return {
        "dimension": distribution.dimension,
        "value": distribution.value,
        "outcome": distribution.outcome,
        "attempts": distribution.attempts,
        "unit": distribution.unit,
        "cost": None if distribution.cost is None else quartiles(distribution.cost),
        "tokens": quartiles(distribution.tokens),
        "seconds": quartiles(distribution.seconds),
    }
