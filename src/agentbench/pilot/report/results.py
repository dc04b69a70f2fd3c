"""The report of a pilot: rates by stratum, paired comparisons, costs, removals, deviations and decisions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentbench.pilot.decisions.efficacy import sequential_decision
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.design.efficacy_rule import efficacy_rule, planned_blocks
from agentbench.pilot.folder import AUDIT, RUBRIC, RUNS, write_text
from agentbench.pilot.pilot_state import PilotState, read_unchanged_state
from agentbench.pilot.registration.registration import deviations
from agentbench.pilot.report.status import Status, frozen_status
from agentbench.pilot.report.tables import audit_text, rubric_text
from agentbench.reports.adjudications import read_adjudications
from agentbench.reports.deviations import run_deviations
from agentbench.reports.provenance import Provenance, read_provenance
from agentbench.reports.sequential_text import describe_rule
from agentbench.reports.sources import open_run
from agentbench.reports.spending import Quartiles
from agentbench.statistics.multiple import holm
from agentbench.statistics.paired import Comparison, compare
from agentbench.statistics.paired import pair as pair_trials
from agentbench.statistics.rates import Proportion, endpoint
from agentbench.statistics.sequential.rules import SequentialDecision

ALL = "all strata"


@dataclass(frozen=True, slots=True)
class RateLine:
    """Success of one method in one stratum, in the primary endpoint."""

    stratum: str
    method: str
    tasks: int
    proportion: Proportion


@dataclass(frozen=True, slots=True)
class CostLine:
    """Quartiles of recorded costs of one method in one stratum."""

    stratum: str
    method: str
    attempts: int
    total: float
    unit: str
    cost: Quartiles
    tokens: Quartiles
    seconds: Quartiles


@dataclass(frozen=True, slots=True)
class Pair:
    """A comparison of two methods: B - A."""

    a: str
    b: str
    primary: bool
    """Whether it compares the first two methods, which the pilot was registered for."""
    comparison: Comparison | None
    adjusted_p: float | None
    """Adjusted for the number of comparisons (Holm)."""
    sequential: SequentialDecision | None = None
    """Of the primary comparison: the decision of the registered rule. Its interval and p-value replace the ordinary ones."""

    @property
    def p_value(self) -> float | None:
        if self.sequential is not None:
            return self.sequential.adjusted_p
        return self.comparison.p_value if self.comparison else None


@dataclass(frozen=True)
class PilotReport:
    state: PilotState
    status: Status
    rates: tuple[RateLine, ...]
    pairs: tuple[Pair, ...]
    costs: tuple[CostLine, ...]
    deviations: tuple[str, ...]

    @property
    def sequential(self) -> SequentialDecision | None:
        """The decision of the registered rule, with an interval that is valid although it looked several times."""
        return next((pair.sequential for pair in self.pairs if pair.primary), None)

    @property
    def rule_text(self) -> str:
        """Describe the registered rule with its looks; empty without one."""
        rule = efficacy_rule(self.state.pilot)
        tasks = len({line.task_id for line in self.state.lines})
        return "" if rule is None else describe_rule(rule, planned_blocks(self.state.pilot, tasks))


def make_report(folder: Path) -> PilotReport:
    """Compute the report of a frozen pilot, finished or not.

    Raises:
        InputError: it is not frozen, or one of its files is missing or was edited.
    """
    state = read_unchanged_state(folder)
    counted = [attempt for attempt in state.observations if attempt.task_id not in state.removed]
    return PilotReport(
        state=state,
        status=frozen_status(state),
        rates=_rates(state, counted),
        pairs=_pairs(state, counted),
        costs=_costs(state),
        deviations=_deviations(state),
    )


def write_tables(report: PilotReport) -> None:
    """Write `audit.csv` and `rubric.csv` into the folder of the pilot.

    Raises:
        RecordError: a file cannot be written.
    """
    folder = report.state.folder
    reviews = {
        review.attempt_id: review
        for name in report.state.records.by_run
        for review in read_adjudications(folder / RUNS / name)
    }
    write_text(folder / AUDIT, audit_text(report.state, report.deviations))
    write_text(folder / RUBRIC, rubric_text(report.state, reviews, report.deviations))


def _strata(state: PilotState) -> list[tuple[str, frozenset[str]]]:
    """Return every stratum with its tasks, all tasks first."""
    groups: dict[str, set[str]] = {}
    for task in state.registration.tasks:
        if task.task_id not in state.removed:
            groups.setdefault(task.stratum, set()).add(task.task_id)
    everything = frozenset(task for tasks in groups.values() for task in tasks)
    strata = [(name, frozenset(tasks)) for name, tasks in sorted(groups.items())]
    return [(ALL, everything), *(strata if len(strata) > 1 else ())]


def _rates(state: PilotState, counted: Sequence[Observation]) -> tuple[RateLine, ...]:
    return tuple(
        RateLine(stratum, method, len({trial.task for trial in trials}), endpoint(trials, state.pilot.endpoint))
        for stratum, tasks in _strata(state)
        for method in state.pilot.names
        for trials in ([a.trial for a in counted if a.method == method and a.task_id in tasks],)
    )


def _pairs(state: PilotState, counted: Sequence[Observation]) -> tuple[Pair, ...]:
    """Compare the methods with each other, and each method with each baseline."""
    methods = [entry.label for entry in state.pilot.methods]
    baselines = [entry.label for entry in state.pilot.baselines]
    names = [*itertools.combinations(methods, 2), *itertools.product(baselines, methods)]
    trials = {name: [attempt.trial for attempt in counted if attempt.method == name] for name in state.pilot.names}
    rate = state.pilot.endpoint
    comparisons = [compare(pair_trials(trials[a], trials[b], rate), rate) for a, b in names]
    primary, decision = tuple(methods[:2]), sequential_decision(state.pilot, state.lines, counted, state.removed)
    pairs = [
        Pair(a, b, (a, b) == primary, comparison, None, decision if (a, b) == primary else None)
        for (a, b), comparison in zip(names, comparisons, strict=True)
    ]
    adjusted = iter(holm([pair.p_value for pair in pairs if pair.p_value is not None]))
    return tuple(pair if pair.p_value is None else replace(pair, adjusted_p=next(adjusted)) for pair in pairs)


def _costs(state: PilotState) -> tuple[CostLine, ...]:
    records = [record for record in state.records.finals() if record.task_id not in state.removed]
    lines = []
    for stratum, tasks in _strata(state):
        for method in state.pilot.names:
            own = [record for record in records if record.variant == method and record.task_id in tasks]
            if own:
                lines.append(
                    CostLine(
                        stratum,
                        method,
                        len(own),
                        sum(record.cost.total for record in own),
                        ", ".join(sorted({record.cost.unit for record in own})),
                        Quartiles.of([record.cost.total for record in own]),
                        Quartiles.of([record.usage.prompt_tokens + record.usage.completion_tokens for record in own]),
                        Quartiles.of([record.duration_sec for record in own]),
                    )
                )
    return tuple(lines)


def _deviations(state: PilotState) -> tuple[str, ...]:
    """Collect the deviations of the registrations and of every run."""
    runs = [open_run(state.folder / RUNS / name) for name in state.records.by_run]
    texts = [*deviations(state.registrations)]
    texts += [f"{run.path.name}: {altered}" for run in runs for altered in run.altered]
    if runs:
        origins = {task: origin for run in runs for task, origin in read_provenance(run.path, run.rows).origins.items()}
        merged = replace(runs[0], rows=tuple(row for run in runs for row in run.rows), meta={})
        texts += run_deviations(merged, Provenance(origins))
    return tuple(dict.fromkeys(texts))
