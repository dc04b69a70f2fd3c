"""The report of a pilot: rates by stratum, paired comparisons, costs, removals, deviations and decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import RunStatus
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.design.efficacy_rule import efficacy_rule, planned_blocks
from agentbench.pilot.folder import AUDIT, COMPARISONS, RUBRIC, RUNS, write_text
from agentbench.pilot.pilot_state import PilotState, read_unchanged_state
from agentbench.pilot.registration.registration import deviations
from agentbench.pilot.report.comparisons import Pair, compare_methods, comparisons_text
from agentbench.pilot.report.status import Status, frozen_status
from agentbench.pilot.report.tables import audit_text, rubric_text
from agentbench.reports.adjudications import read_adjudications
from agentbench.reports.deviations import run_deviations
from agentbench.reports.number_format import plural
from agentbench.reports.provenance import Origin, Provenance, read_provenance
from agentbench.reports.sequential_text import describe_rule
from agentbench.reports.sources import Run, open_run
from agentbench.reports.spending import Quartiles
from agentbench.statistics.rates import Proportion, endpoint
from agentbench.statistics.sequential.rules import SequentialDecision
from agentbench.statistics.trials import Trial

ALL = "all strata"


@dataclass(frozen=True, slots=True)
class RateLine:
    """Success of one method in one stratum, in the primary endpoint."""

    stratum: str
    method: str
    tasks: int
    proportion: Proportion
    invalid: int
    """Attempts outside the rate."""
    check_errors: int
    """Attempts in the rate whose checks could not decide. They count as not passed."""


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
class CapLine:
    """A cap on an attempt that was enforced, and the number of tasks with this value."""

    name: str
    value: str
    tasks: int


@dataclass(frozen=True)
class PilotReport:
    state: PilotState
    status: Status
    rates: tuple[RateLine, ...]
    pairs: tuple[Pair, ...]
    costs: tuple[CostLine, ...]
    caps: tuple[CapLine, ...]
    """Caps on one attempt. Those on a task and on the pilot are its budgets."""
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
    runs = [open_run(state.folder / RUNS / name) for name in state.records.by_run]
    origins = [(run, read_provenance(run.path, run.rows).origins) for run in runs]
    return PilotReport(
        state=state,
        status=frozen_status(state),
        rates=_rates(state, counted),
        pairs=compare_methods(state, counted),
        costs=_costs(state),
        caps=_caps([origins for _, origins in origins]),
        deviations=_deviations(state, origins),
    )


def write_tables(report: PilotReport) -> None:
    """Write `audit.csv`, `rubric.csv` and `comparisons.csv` into the folder of the pilot.

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
    write_text(folder / COMPARISONS, comparisons_text(report.pairs, report.deviations))


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
        _rate(stratum, method, [a.trial for a in counted if a.method == method and a.task_id in tasks], state)
        for stratum, tasks in _strata(state)
        for method in state.pilot.names
    )


def _rate(stratum: str, method: str, trials: Sequence[Trial], state: PilotState) -> RateLine:
    proportion = endpoint(trials, state.pilot.endpoint)
    invalid = len(trials) - proportion.total
    errors = sum(trial.status is RunStatus.ACCEPTANCE_ERROR for trial in trials)
    return RateLine(stratum, method, len({trial.task for trial in trials}), proportion, invalid, errors)


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


def _caps(origins: Iterable[Mapping[str, Origin]]) -> tuple[CapLine, ...]:
    tasks: dict[tuple[str, str], set[str]] = {}
    for by_task in origins:
        for task, origin in by_task.items():
            for cap in origin.caps.items():
                tasks.setdefault(cap, set()).add(task)
    return tuple(CapLine(name, value, len(found)) for (name, value), found in sorted(tasks.items()) if value)


def _deviations(state: PilotState, origins: Sequence[tuple[Run, Mapping[str, Origin]]]) -> tuple[str, ...]:
    """Collect the deviations of the registrations and of every run."""
    texts = [*deviations(state.registrations), *_repeated(state)]
    texts += [f"{run.path.name}: {doubt}" for run, _ in origins if (doubt := run.seal_marks.doubt)]
    if origins:
        runs = [run for run, _ in origins]
        merged = replace(runs[0], rows=tuple(row for run in runs for row in run.rows), meta={})
        texts += run_deviations(merged, Provenance({task: o for _, by_task in origins for task, o in by_task.items()}))
    return tuple(dict.fromkeys(texts))


def _repeated(state: PilotState) -> Iterator[str]:
    """Count the attempts that ended without a result and were made again: who ends attempts can favour a method."""
    counts = Counter(record.variant for record in state.records.all() if not record.final)
    if counts:
        listed = ", ".join(f"{method} {number}" for method, number in sorted(counts.items()))
        yield f"{plural(sum(counts.values()), 'attempt')} without a result made again ({listed})"
