"""The summary of one run, as numbers: rates with their denominators, strata, costs, times, what was enforced, what is unsure.

`summary_text` and `summary_data` write it down.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.record.schema import AttemptRecord
from agentbench.reports.adjudications import Adjudication, cases, read_adjudications
from agentbench.reports.figures import counted, percent, plural, share_interval, total
from agentbench.reports.provenance import Provenance, read_provenance
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.statistics.comparability import Identity, seed_deviations
from agentbench.statistics.error_rates import CategoryTruth, error_rates
from agentbench.statistics.intervals import Interval, clustered_wilson
from agentbench.statistics.rates import Proportion, Rates, endpoint, rates
from agentbench.statistics.repeats import PassK, pass_k
from agentbench.statistics.survival import Curve, curve
from agentbench.statistics.trials import Rate, Trial, answered
from agentbench.statistics.undecided_bounds import Bounds, bounds, undecided
from agentbench.verdict.headline import judged_only

HARDEST = 10
CAPPED = frozenset({"max_steps", "tool_call_cap", "token_cap", "cost_cap", "wall_cap", "failed_cycle_cap", "dominance"})
"""Endings by a cap: the attempt might have succeeded with more."""
OUTCOMES = ("passed", "failed", "undecided")

COUNTING = (
    "Acceptance errors are scorable and count as not passed in both rates. Runs invalid by the fault of the harness, the task or "
    "an operator stand outside both; a run made invalid by the agent's own unsafe act counts as not passed in the contract rate."
)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task over its repeats."""

    task: str
    passed: int
    counted: int
    """Attempts inside the contract rate."""
    attempts: int
    tokens: int = 0
    cost: float = 0.0

    @property
    def share(self) -> float | None:
        return self.passed / self.counted if self.counted else None

    @property
    def flaky(self) -> bool:
        """Its attempts under one and the same contract did not all end alike."""
        return 0 < self.passed < self.counted


@dataclass(frozen=True, slots=True)
class Stratum:
    """The part of a run whose tasks share a property."""

    dimension: str
    value: str
    tasks: int
    contract: Proportion
    cost: Mapping[str, float]
    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Times:
    """How long attempts of one outcome took, from start to end."""

    outcome: str
    attempts: int
    median: float
    ninth: float
    longest: float
    total: float


@dataclass(frozen=True, slots=True)
class Spending:
    """Costs of one unit, by phase. Money and abstract units are never added up."""

    unit: str
    lm: float
    exec: float
    human: float
    overhead: float
    judge: float
    total: float
    passed: int
    """Attempts among them that passed."""

    @property
    def per_pass(self) -> float | None:
        return self.total / self.passed if self.passed else None


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything the formats are made from."""

    run: Run
    provenance: Provenance
    rates: Rates
    by_repository: Interval | None
    """The contract rate's interval with repositories as clusters; None when each task has its own or they are unknown."""
    bounds: Bounds
    pass_k: tuple[PassK, ...]
    tasks: tuple[TaskLine, ...]
    reasons: Mapping[str, int]
    gate_vectors: Mapping[tuple[Outcome, ...], int]
    strata: tuple[Stratum, ...]
    spending: tuple[Spending, ...]
    times: tuple[Times, ...]
    time_to_success: Curve
    cost_to_success: Curve
    deviations: tuple[str, ...]
    mean_score: float | None
    """Over attempts that pass all gates, and only those (P4.3)."""
    scored: int
    assurance: Mapping[str, int]
    adjudications: tuple[Adjudication, ...]
    truth: tuple[CategoryTruth, ...]

    @property
    def hardest(self) -> tuple[TaskLine, ...]:
        """Tasks that did not always pass, the least passed first."""
        short = [line for line in self.tasks if line.share is not None and line.share < 1]
        return tuple(sorted(short, key=lambda line: (line.share, line.task))[:HARDEST])

    @property
    def flaky(self) -> tuple[TaskLine, ...]:
        return tuple(line for line in self.tasks if line.flaky)

    @property
    def provisional(self) -> bool:
        return bool(self.deviations)


def summarise(run: Run) -> Summary:
    """Fold a run's final records."""
    rows, trials = run.rows, run.trials
    origin = read_provenance(run.path, rows)
    found = read_adjudications(run.path)
    scores = [row.score for row in rows if row.passed and row.score is not None]
    told = answered(trials, lambda trial: (_outcome(trial), trial.value(Rate.CONTRACT)))
    kinds = [kind for kind, _ in told]
    passed = np.asarray([kind == "passed" for kind in kinds], dtype=bool)
    # A cap or an undecided end censors: it might have succeeded later. Any other end without success means never.
    never = np.asarray(
        [kind == "failed" and row.ending not in CAPPED for row, kind in zip(rows, kinds, strict=True)], dtype=bool
    )
    lines = _task_lines(rows, [value for _, value in told])
    return Summary(
        run=run,
        provenance=origin,
        rates=rates(trials),
        by_repository=_by_repository(lines, origin),
        bounds=bounds(trials),
        pass_k=pass_k([(line.passed, line.counted) for line in lines])
        if any(line.counted > 1 for line in lines)
        else (),
        tasks=lines,
        reasons=Counter(str(row.reason) for row in rows if row.reason is not None),
        gate_vectors=Counter(row.gates for row in rows),
        strata=_strata(run, origin),
        spending=_spending(rows),
        times=_times(rows, kinds),
        time_to_success=curve(np.asarray([row.usage.wall_sec for row in rows], dtype=np.float64), passed, never),
        cost_to_success=curve(np.asarray([row.cost.total for row in rows], dtype=np.float64), passed, never),
        deviations=_deviations(run, origin),
        mean_score=total(scores) / len(scores) if scores else None,
        scored=len(scores),
        assurance=Counter(str(row.assurance) if row.assurance else "none" for row in rows),
        adjudications=found,
        truth=error_rates(cases(found, rows)),
    )


def decision(summary: Summary) -> str:
    """The first line: what share passed, and of what."""
    contract = summary.rates.contract
    if not summary.rates.attempts:
        return "EMPTY: no attempt has finished"
    judged = _judged(summary)
    if judged and sum(judged.values()) == summary.rates.attempts:
        return f"ONLY JUDGED: {plural(summary.rates.attempts, 'attempt')} without a workspace: {_told(judged)}"
    if contract.share is None:
        causes = ", ".join(f"{cause}: {count}" for cause, count in sorted(summary.rates.invalid.items()))
        return f"NOTHING TO SCORE: all {plural(summary.rates.attempts, 'attempt')} invalid ({causes})"
    outside = summary.rates.attempts - contract.total - sum(judged.values())
    line = f"{counted(contract)} passed: contract rate {percent(contract.share)}"
    if contract.interval:
        line += f" ({contract.interval.confidence:.0%} interval {share_interval(contract.interval)})"
    line += f"; {plural(outside, 'run')} invalid and outside it" if outside else ""
    line += f"; {plural(sum(judged.values()), 'run')} only judged ({_told(judged)})" if judged else ""
    return line + (" [PROVISIONAL]" if summary.provisional else "")


def _judged(summary: Summary) -> Counter[str]:
    """Attempts at tasks without a workspace, by what the judge said of them."""
    return Counter(row.judge or "not judged" for row in summary.run.rows if judged_only(row.status, row.reason))


def _told(judged: Counter[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(judged.items()))


def assurance_of(record: AttemptRecord) -> Assurance | None:
    """A verdict is as strong as its weakest mandatory check."""
    order = list(Assurance)
    used = [one.assurance for one in record.checks if one.mandatory]
    return max(used, key=order.index) if used else None


def vector(outcomes: Sequence[Outcome]) -> str:
    """The gate vector in words: `G1 pass, G2 pass, G3 fail, G4 pass`."""
    return ", ".join(f"{gate} {outcome}" for gate, outcome in zip(Gate, outcomes, strict=True))


# --- parts --------------------------------------------------------------------------------------------------------------


def _task_lines(rows: Sequence[Row], values: Sequence[int | None]) -> tuple[TaskLine, ...]:
    """`values`: what each attempt counts in the contract rate."""
    places: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        places.setdefault(row.task, []).append(index)
    used = [row.usage.prompt_tokens + row.usage.completion_tokens for row in rows]
    spent = [row.cost.total for row in rows]
    found = []
    for task, picked in sorted(places.items()):
        inside = [value for index in picked if (value := values[index]) is not None]
        tokens, cost = sum([used[index] for index in picked]), total([spent[index] for index in picked])
        found.append(TaskLine(task, sum(inside), len(inside), len(picked), tokens, cost))
    return tuple(found)


def _by_repository(lines: Sequence[TaskLine], origin: Provenance) -> Interval | None:
    homes = origin.repositories
    if not lines or any(line.task not in homes for line in lines):
        return None
    clusters: dict[str, tuple[int, int]] = {}
    for line in lines:
        good, all_ = clusters.get(homes[line.task], (0, 0))
        clusters[homes[line.task]] = (good + line.passed, all_ + line.counted)
    if len(clusters) == len(lines):
        return None
    found = clustered_wilson(list(clusters.values()))
    return found and Interval(found.low, found.high, found.confidence, "Wilson, clustered by repository")


def _strata(run: Run, origin: Provenance) -> tuple[Stratum, ...]:
    found = []
    for dimension in origin.dimensions:
        groups: dict[str, list[int]] = {}
        for index, row in enumerate(run.rows):
            value = origin.origins[row.task].strata.get(dimension, "not stated") if row.task in origin.origins else ""
            groups.setdefault(value or "not stated", []).append(index)
        found += [
            _stratum(dimension, value, [run.rows[i] for i in picked], [run.trials[i] for i in picked])
            for value, picked in sorted(groups.items())
        ]
    return tuple(found)


def _stratum(dimension: str, value: str, rows: Sequence[Row], trials: Sequence[Trial]) -> Stratum:
    return Stratum(
        dimension,
        value,
        tasks=len({row.task for row in rows}),
        contract=endpoint(trials, Rate.CONTRACT),
        cost={one.unit: one.total for one in _spending(rows)},
        seconds=total([row.duration for row in rows]),
        tokens=sum(row.usage.prompt_tokens + row.usage.completion_tokens for row in rows),
    )


def _spending(rows: Sequence[Row]) -> tuple[Spending, ...]:
    units: dict[str, list[Row]] = {}
    for row in rows:
        units.setdefault(row.cost.unit, []).append(row)
    found = []
    for unit, some in sorted(units.items()):
        costs = [row.cost for row in some]
        found.append(
            Spending(
                unit,
                lm=total([one.lm for one in costs]),
                exec=total([one.exec for one in costs]),
                human=total([one.human for one in costs]),
                overhead=total([one.overhead for one in costs]),
                judge=total([one.judge for one in costs]),
                total=total([one.total for one in costs]),
                passed=sum([row.passed for row in some]),
            )
        )
    return tuple(found)


def _outcome(trial: Trial) -> str:
    """One of OUTCOMES."""
    if trial.passed:
        return "passed"
    return "undecided" if undecided(trial) else "failed"


def _times(rows: Sequence[Row], kinds: Sequence[str]) -> tuple[Times, ...]:
    groups: dict[str, list[float]] = {}
    for row, kind in zip(rows, kinds, strict=True):
        groups.setdefault(kind, []).append(row.duration)
    found = []
    for outcome in OUTCOMES:
        values = np.asarray(groups.get(outcome, ()), dtype=np.float64)
        if values.size:
            median, ninth = (float(one) for one in np.quantile(values, (0.5, 0.9)))
            found.append(Times(outcome, values.size, median, ninth, float(values.max()), total(groups[outcome])))
    return tuple(found)


def _seeds(rows: Sequence[Row]) -> list[Identity]:
    """One identity for each seed of a first repeat: all that the question of seeds needs."""
    return [Identity(task="", seed=seed) for seed in {row.seed for row in rows if row.repeat == 1}]


def _deviations(run: Run, origin: Provenance) -> tuple[str, ...]:
    """Departures from the protocol that make the numbers provisional (L-06)."""
    found = list(seed_deviations(_seeds(run.rows), "this run"))
    noted = Counter(text for one in origin.origins.values() for text in one.deviations)
    found += [f"{text} ({plural(count, 'task')})" for text, count in sorted(noted.items())]
    versions = sorted({row.harness_version for row in run.rows})
    if len(versions) > 1:
        found.append(f"attempts were made by different versions of the harness: {', '.join(versions)}")
    contracts = Counter(task for task, _ in {(row.task, row.contract_id) for row in run.rows})
    mixed = sorted(task for task, ids in contracts.items() if ids > 1)
    if mixed:
        found.append(f"attempts at one task were made under different contract versions: {', '.join(mixed[:5])}")
    frozen = sum(one.replayable is False for one in origin.origins.values())
    if frozen:
        found.append(f"{plural(frozen, 'task')} cannot be replayed: they depend on what is outside the contract")
    return tuple(found)
