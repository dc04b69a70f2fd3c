"""Summary of one run: rates with denominators, strata, costs, times, deviations.

`summarise` computes it; `summary_data` writes it for machines and `summary_markdown` for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import Assurance, Gate, Outcome
from agentbench.record.schema import AttemptRecord
from agentbench.reports.adjudications import Adjudication, Review, cases, read_adjudications, reviews
from agentbench.reports.deviations import makes_provisional, run_deviations
from agentbench.reports.number_format import counted, percent, plural, share_interval, total
from agentbench.reports.provenance import Provenance, read_provenance
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Run
from agentbench.reports.spending import (
    OUTCOMES,
    Distribution,
    ReviewCosts,
    Spending,
    distributions,
    read_review_costs,
    spending,
)
from agentbench.statistics.error_rates import CategoryErrors, error_rates
from agentbench.statistics.intervals import Interval, clustered_wilson, clusters_by_repository, few_repositories
from agentbench.statistics.quantiles import quantile
from agentbench.statistics.rates import Proportion, Rates, endpoint, rates
from agentbench.statistics.repeats import PassK, pass_k
from agentbench.statistics.survival import Curve, kaplan_meier
from agentbench.statistics.trials import Rate, Trial, map_trials
from agentbench.statistics.undecided_bounds import Bounds, bounds, undecided
from agentbench.verdict.headline import judged_only

HARDEST_SHOWN = 10
LOW_COVERAGE = 0.5
"""Share of fail-to-pass tests with decoys below which reports warn."""
CAPPED = frozenset({"max_steps", "tool_call_cap", "token_cap", "cost_cap", "wall_cap", "failed_cycle_cap", "dominance"})
"""Terminations by a cap: the attempt might have passed with a higher one."""
GATE_NAMES = {
    Gate.G1: "patch applies",
    Gate.G2: "builds",
    Gate.G3: "passes checks",
    Gate.G4: "is safe",
}

COUNTING = (
    "Acceptance errors are scorable and count as not passed in both rates. Attempts that are invalid because of the "
    "harness, the task or an operator are outside both rates. An attempt made invalid by the agent's own unsafe action "
    "counts as not passed in the contract rate."
)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """Totals of one task over its repeats."""

    task: str
    passed: int
    counted: int
    """Attempts counted in the contract rate."""
    attempts: int
    tokens: int = 0
    cost: float = 0.0

    @property
    def share(self) -> float | None:
        return self.passed / self.counted if self.counted else None

    @property
    def flaky(self) -> bool:
        """Some counted attempts passed and some did not."""
        return 0 < self.passed < self.counted


@dataclass(frozen=True, slots=True)
class Stratum:
    """Totals of the tasks that share a value of one stratum."""

    dimension: str
    value: str
    tasks: int
    contract: Proportion
    cost: Mapping[str, float]
    seconds: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Times:
    """Durations of the attempts with one outcome, in seconds."""

    outcome: str
    attempts: int
    median: float
    p90: float
    longest: float
    total: float


@dataclass(frozen=True, slots=True)
class Summary:
    """All numbers of the report; every format renders this."""

    run: Run
    provenance: Provenance
    rates: Rates
    by_repository: Interval | None
    """Interval of the contract rate clustered by repository; None if each task has its own or they are unknown or few."""
    few_repositories: tuple[str, ...]
    """A note if tasks share repositories, but too few of them for that interval."""
    bounds: Bounds
    pass_k: tuple[PassK, ...]
    tasks: tuple[TaskLine, ...]
    reasons: Mapping[str, int]
    gate_vectors: Mapping[tuple[Outcome, ...], int]
    strata: tuple[Stratum, ...]
    spending: tuple[Spending, ...]
    review_costs: ReviewCosts
    distributions: tuple[Distribution, ...]
    times: tuple[Times, ...]
    time_to_success: Curve
    cost_to_success: Curve
    deviations: tuple[str, ...]
    mean_score: float | None
    """Mean over attempts that passed all gates."""
    scored: int
    assurance: Mapping[str, int]
    commands: Mapping[str, int]
    """Attempts of agent programs by how completely their commands were observed."""
    adjudications: tuple[Adjudication, ...]
    reviews: tuple[Review, ...]
    """One per adjudicated attempt."""
    error_rates: tuple[CategoryErrors, ...]

    @property
    def hardest(self) -> tuple[TaskLine, ...]:
        """Tasks that did not always pass, lowest share first."""
        failing = [line for line in self.tasks if line.share is not None and line.share < 1]
        return tuple(sorted(failing, key=lambda line: (line.share, line.task))[:HARDEST_SHOWN])

    @property
    def flaky(self) -> tuple[TaskLine, ...]:
        return tuple(line for line in self.tasks if line.flaky)

    @property
    def provisional(self) -> bool:
        return makes_provisional(self.deviations)


def summarise(run: Run) -> Summary:
    """Summarise the final records of a run."""
    rows, trials = run.rows, run.trials
    provenance = read_provenance(run.path, rows)
    adjudications = read_adjudications(run.path)
    reviewed = _reviews(run, adjudications)
    review_costs = read_review_costs(adjudications, rows, provenance)
    scores = [row.score for row in rows if row.passed and row.score is not None]
    graded = map_trials(trials, lambda trial: (_outcome(trial), trial.value(Rate.CONTRACT)))
    outcomes = [outcome for outcome, _ in graded]
    passed = [outcome == "passed" for outcome in outcomes]
    # Attempts stopped by a cap or undecided are censored: they might have passed later. Other failures never pass.
    never = [outcome == "failed" and row.ending not in CAPPED for row, outcome in zip(rows, outcomes, strict=True)]
    tasks = [row.task for row in rows]
    lines = _task_lines(rows, [value for _, value in graded])
    counted_lines = [line for line in lines if line.counted]
    repositories = _repositories(counted_lines, provenance)
    return Summary(
        run=run,
        provenance=provenance,
        rates=rates(trials),
        by_repository=_by_repository(repositories, len(counted_lines)),
        few_repositories=tuple(few_repositories(len(repositories), len(counted_lines))),
        bounds=bounds(trials),
        pass_k=pass_k([(line.passed, line.counted) for line in lines])
        if any(line.counted > 1 for line in lines)
        else (),
        tasks=lines,
        reasons=Counter(str(row.reason) for row in rows if row.reason is not None),
        gate_vectors=Counter(row.gates for row in rows),
        strata=_strata(run, provenance, review_costs),
        spending=spending(rows, review_costs, run.superseded_cost),
        review_costs=review_costs,
        distributions=distributions(rows, outcomes, provenance),
        times=_times(rows, outcomes),
        time_to_success=kaplan_meier([row.usage.wall_sec for row in rows], passed, never, tasks),
        cost_to_success=kaplan_meier([row.cost.total for row in rows], passed, never, tasks),
        deviations=run_deviations(run, provenance),
        mean_score=total(scores) / len(scores) if scores else None,
        scored=len(scores),
        assurance=Counter(str(row.assurance) if row.assurance else "none" for row in rows),
        commands=Counter(row.commands for row in rows if row.commands is not None),
        adjudications=adjudications,
        reviews=reviewed,
        error_rates=error_rates(cases(reviewed)),
    )


def _reviews(run: Run, adjudications: Sequence[Adjudication]) -> tuple[Review, ...]:
    adjudicated = {adjudication.attempt_id for adjudication in adjudications}
    return reviews(adjudications, run.records([row for row in run.rows if row.attempt_id in adjudicated]))


def decision(summary: Summary) -> str:
    """The first line: how many attempts passed, and of how many, after a note if records were altered."""
    return summary.run.mark(_counts(summary))


def _counts(summary: Summary) -> str:
    contract = summary.rates.contract
    if not summary.rates.attempts:
        return "EMPTY: no finished attempts"
    judged = _judged(summary)
    if judged and sum(judged.values()) == summary.rates.attempts:
        return f"ONLY JUDGED: {plural(summary.rates.attempts, 'attempt')} without a workspace: {_judge_counts(judged)}"
    if contract.share is None:
        causes = ", ".join(f"{cause}: {count}" for cause, count in sorted(summary.rates.invalid.items()))
        line = f"NOTHING TO SCORE: all {plural(summary.rates.attempts, 'attempt')} invalid ({causes})"
        return _labelled(line, summary)
    outside = summary.rates.attempts - contract.total - sum(judged.values())
    line = f"{counted(contract)} passed: contract rate {percent(contract.share)}"
    if contract.interval:
        line += f" ({contract.interval.confidence:.0%} CI {share_interval(contract.interval)})"
    line += f"; {plural(outside, 'invalid attempt')} not counted" if outside else ""
    line += f"; {plural(sum(judged.values()), 'attempt')} only judged ({_judge_counts(judged)})" if judged else ""
    return _labelled(line, summary)


def _labelled(line: str, summary: Summary) -> str:
    return line + (" [PROVISIONAL]" if summary.provisional else "")


def _judged(summary: Summary) -> Counter[str]:
    """Count attempts at tasks without a workspace by the judge's verdict."""
    return Counter(
        row.judge or "not judged" for row in summary.run.rows if judged_only(row.status, row.reason, row.attribution)
    )


def _judge_counts(judged: Counter[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(judged.items()))


def assurance_of(record: AttemptRecord) -> Assurance | None:
    """Return the assurance of the weakest mandatory check."""
    order = list(Assurance)
    levels = [check.assurance for check in record.checks if check.mandatory]
    return max(levels, key=order.index) if levels else None


def decoy_coverage(rows: Sequence[Row]) -> dict[str, float]:
    """Return the decoy coverage of every task that has one: the smallest of its attempts."""
    shares: dict[str, float] = {}
    for row in rows:
        if row.decoy_coverage is not None:
            shares[row.task] = min(row.decoy_coverage, shares.get(row.task, 1.0))
    return shares


def coverage_sentence(summary: Summary) -> str:
    """Say how many fail-to-pass tests have decoys; empty if no attempt says."""
    shares = decoy_coverage(summary.run.rows)
    if not shares:
        return ""
    low = sum(share < LOW_COVERAGE for share in shares.values())
    line = f"Decoy tests cover {percent(total(list(shares.values())) / len(shares))} of the fail-to-pass tests (mean of {plural(len(shares), 'task')})"
    if low:
        none = sum(share == 0 for share in shares.values())
        without = f" ({none} without any)" if none else ""
        line += f"; at {plural(low, 'task')}{without} below {percent(LOW_COVERAGE)}, where a pass is easier to forge"
    return line + "."


# --- parts ------------------------------------------------------------------------------------------------------------


def unknown_cost(summary: Summary) -> tuple[str, ...]:
    """Say for how many attempts the cost is unknown; nothing if it is known for all."""
    rows = summary.run.rows
    unknown = sum(row.cost.known_total is None for row in rows)
    return (f"unknown for {unknown} of {plural(len(rows), 'attempt')}",) if unknown else ()


def _task_lines(rows: Sequence[Row], values: Sequence[int | None]) -> tuple[TaskLine, ...]:
    """Total rows by task. `values` holds what each attempt counts in the contract rate."""
    by_task: dict[str, list[int]] = {}
    for index, row in enumerate(rows):
        by_task.setdefault(row.task, []).append(index)
    tokens = [row.usage.prompt_tokens + row.usage.completion_tokens for row in rows]
    costs = [row.cost.total for row in rows]
    return tuple(
        TaskLine(
            task,
            passed=sum(values[index] or 0 for index in indices),
            counted=sum(values[index] is not None for index in indices),
            attempts=len(indices),
            tokens=sum([tokens[index] for index in indices]),
            cost=total([costs[index] for index in indices]),
        )
        for task, indices in sorted(by_task.items())
    )


def _repositories(lines: Sequence[TaskLine], provenance: Provenance) -> dict[str, tuple[int, int]]:
    """Return passed and counted attempts of each repository; empty if the repository of a task is unknown."""
    repositories = provenance.repositories
    if any(line.task not in repositories for line in lines):
        return {}
    clusters: dict[str, tuple[int, int]] = {}
    for line in lines:
        passed, attempts = clusters.get(repositories[line.task], (0, 0))
        clusters[repositories[line.task]] = (passed + line.passed, attempts + line.counted)
    return clusters


def _by_repository(clusters: Mapping[str, tuple[int, int]], tasks: int) -> Interval | None:
    if not clusters_by_repository(len(clusters), tasks):
        return None
    interval = clustered_wilson(list(clusters.values()))
    return interval and replace(interval, method="Wilson, clustered by repository")


def _strata(run: Run, provenance: Provenance, review_costs: ReviewCosts) -> tuple[Stratum, ...]:
    strata = []
    for dimension in provenance.dimensions:
        groups: dict[str, list[int]] = {}
        for index, row in enumerate(run.rows):
            origin = provenance.origins.get(row.task)
            value = origin.strata.get(dimension) if origin else None
            groups.setdefault(value or "not stated", []).append(index)
        strata += [
            _stratum(dimension, value, [run.rows[i] for i in indices], [run.trials[i] for i in indices], review_costs)
            for value, indices in sorted(groups.items())
        ]
    return tuple(strata)


def _stratum(
    dimension: str, value: str, rows: Sequence[Row], trials: Sequence[Trial], review_costs: ReviewCosts
) -> Stratum:
    return Stratum(
        dimension,
        value,
        tasks=len({row.task for row in rows}),
        contract=endpoint(trials, Rate.CONTRACT),
        cost={costs.unit: costs.total for costs in spending(rows, review_costs)},
        seconds=total([row.duration for row in rows]),
        tokens=sum(row.usage.prompt_tokens + row.usage.completion_tokens for row in rows),
    )


def _outcome(trial: Trial) -> str:
    """Return one of OUTCOMES."""
    if trial.passed:
        return "passed"
    return "undecided" if undecided(trial) else "failed"


def _times(rows: Sequence[Row], outcomes: Sequence[str]) -> tuple[Times, ...]:
    groups: dict[str, list[float]] = {}
    for row, outcome in zip(rows, outcomes, strict=True):
        groups.setdefault(outcome, []).append(row.duration)
    times = []
    for outcome in OUTCOMES:
        durations = sorted(groups.get(outcome, ()))
        if durations:
            median, p90 = quantile(durations, 0.5), quantile(durations, 0.9)
            times.append(Times(outcome, len(durations), median, p90, durations[-1], total(durations)))
    return tuple(times)


def unseen_commands(summary: Summary) -> str:
    """Count the attempts of programs whose commands were not, or not all, observed. Their safety is unknown."""
    words = {"not_observed": "commands not observed", "incomplete": "commands not all recorded"}
    counts = [
        f"{plural(summary.commands[status], 'attempt')}: {text}"
        for status, text in words.items()
        if summary.commands.get(status)
    ]
    return f"{'; '.join(counts)}. Safety is unknown there." if counts else ""
