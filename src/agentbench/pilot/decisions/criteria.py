"""Entry and exit criteria of the stages: pure decisions with their evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentbench.core.dataclass import dataclass
from agentbench.pilot.decisions.flakes import FlakeScreen, flaky_tasks
from agentbench.pilot.decisions.observations import Observation
from agentbench.pilot.design.pilot_file import STAGES, PilotFile
from agentbench.pilot.design.plan import PlanLine
from agentbench.pilot.design.power_analysis import PowerAnalysis, needed_text

LISTED = 5


@dataclass(frozen=True, slots=True)
class Criterion:
    """A condition with its decision and what it rests on."""

    name: str
    met: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class StageFacts:
    """Everything that criteria depend on."""

    pilot: PilotFile
    lines: Sequence[PlanLine]
    """The plan without removed tasks."""
    observations: Sequence[Observation]
    """Final attempts at tasks that were not removed."""
    spent: float
    screen: FlakeScreen | None
    power: PowerAnalysis
    """For the tasks that are left and the planned repeats."""
    completed: frozenset[str]
    """Stages whose exit criteria were met."""

    def of_stage(self, stage: str) -> tuple[list[PlanLine], dict[tuple[str, str, int], Observation]]:
        lines = [line for line in self.lines if line.stage == stage]
        keys = {line.key for line in lines}
        return lines, {attempt.key: attempt for attempt in self.observations if attempt.key in keys}


def entry_criteria(stage: str, facts: StageFacts) -> tuple[Criterion, ...]:
    """Decide whether a stage may start."""
    parts = {"feasibility": _feasibility_entry, "limited": _limited_entry, "full": _full_entry}
    return tuple(parts[stage](facts))


def exit_criteria(stage: str, facts: StageFacts) -> tuple[Criterion, ...]:
    """Decide whether a stage is complete and usable."""
    parts = {"feasibility": _feasibility_exit, "limited": _limited_exit, "full": _full_exit}
    return tuple(parts[stage](facts))


def _feasibility_entry(facts: StageFacts) -> Iterator[Criterion]:
    yield _deterministic(facts)
    yield _flake_rate(facts)
    budgets = facts.pilot.budgets
    caps = f"total {budgets.total:g}, per task {budgets.task:g}, per attempt {budgets.run:g}"
    yield Criterion("caps_configured", True, caps)


def _feasibility_exit(facts: StageFacts) -> Iterator[Criterion]:
    yield _records_complete("feasibility", facts)
    yield _costs_recorded("feasibility", facts)


def _limited_entry(facts: StageFacts) -> Iterator[Criterion]:
    yield _completed("feasibility", facts)
    _, observed = facts.of_stage("feasibility")
    violations = sorted(attempt.attempt_id for attempt in observed.values() if attempt.violation)
    evidence = f"{len(violations)} of {len(observed)} attempts violated a boundary{_listed(violations)}"
    yield Criterion("no_boundary_violation", not violations, evidence)
    yield _flake_rate(facts)


def _limited_exit(facts: StageFacts) -> Iterator[Criterion]:
    yield _records_complete("limited", facts)
    yield _endpoint_computable(facts)
    missing = sorted(attempt.attempt_id for attempt in facts.observations if not attempt.subscores)
    total = len(facts.observations)
    evidence = f"{total - len(missing)} of {total} attempts have all subscores or are invalid{_listed(missing)}"
    yield Criterion("subscores_computable", not missing, evidence)
    yield _within_budget(facts)


def _full_entry(facts: StageFacts) -> Iterator[Criterion]:
    yield _completed("limited", facts)
    yield power_criterion(facts.power)
    yield _remaining_budget(facts)


def _full_exit(facts: StageFacts) -> Iterator[Criterion]:
    yield _records_complete("full", facts)
    yield _endpoint_computable(facts)
    yield _within_budget(facts)


# --- single criteria --------------------------------------------------------------------------------------------------


def _completed(stage: str, facts: StageFacts) -> Criterion:
    done = stage in facts.completed
    return Criterion(f"{stage}_complete", done, f"stage {stage} {'met' if done else 'has not met'} its exit criteria")


def _tasks(facts: StageFacts) -> list[str]:
    return sorted({line.task_id for line in facts.lines})


def _deterministic(facts: StageFacts) -> Criterion:
    name = "checks_deterministic"
    if facts.screen is None:
        return Criterion(name, False, "the flake screen has not run")
    tasks = _tasks(facts)
    screened = facts.screen.by_task
    bad = [task for task in tasks if task not in screened or not (screened[task].valid or screened[task].flaky)]
    why = "; ".join(f"{task}: {screened[task].why if task in screened else 'not screened'}" for task in bad[:LISTED])
    times = facts.screen.repeats
    evidence = f"{len(tasks) - len(bad)} of {len(tasks)} tasks: baseline fails and reference passes, {times} times each"
    return Criterion(name, not bad, f"{evidence}; {why}" if bad else evidence)


def _flake_rate(facts: StageFacts) -> Criterion:
    tasks = _tasks(facts)
    flaky = {task: why for task, why in flaky_tasks(facts.screen, facts.observations).items() if task in tasks}
    share, tolerance = len(flaky) / max(1, len(tasks)), facts.pilot.flakes.tolerance
    evidence = f"{len(flaky)} of {len(tasks)} tasks are flaky ({share:.1%}), tolerance {tolerance:.1%}"
    listed = "; ".join(f"{task}: {why}" for task, why in sorted(flaky.items())[:LISTED])
    return Criterion("flake_rate", share <= tolerance, f"{evidence}; {listed}" if flaky else evidence)


def _records_complete(stage: str, facts: StageFacts) -> Criterion:
    lines, observed = facts.of_stage(stage)
    missing = [line for line in lines if line.key not in observed or not observed[line.key].complete]
    evidence = f"{len(lines) - len(missing)} of {len(lines)} attempts have a record with a termination reason"
    listed = _listed([f"{line.method} at {line.task_id}, repeat {line.repeat}" for line in missing])
    return Criterion("records_complete", not missing, evidence + listed)


def _costs_recorded(stage: str, facts: StageFacts) -> Criterion:
    _, observed = facts.of_stage(stage)
    units = sorted({attempt.unit for attempt in observed.values()})
    unpriced = sorted(attempt.attempt_id for attempt in observed.values() if not attempt.priced)
    evidence = (
        f"{len(observed) - len(unpriced)} of {len(observed)} attempts have a cost, in {', '.join(units) or 'no unit'}"
    )
    return Criterion("costs_recorded", not unpriced and len(units) <= 1, evidence + _listed(unpriced))


def _endpoint_computable(facts: StageFacts) -> Criterion:
    rate = facts.pilot.endpoint
    counted = {
        (attempt.task_id, attempt.method) for attempt in facts.observations if attempt.trial.value(rate) is not None
    }
    pairs = [(task, method) for task in _tasks(facts) for method in facts.pilot.names]
    missing = [f"{method} at {task}" for task, method in pairs if (task, method) not in counted]
    evidence = f"{len(pairs) - len(missing)} of {len(pairs)} combinations of task and method count in the {rate} rate"
    return Criterion("endpoint_computable", not missing, evidence + _listed(missing))


def _within_budget(facts: StageFacts) -> Criterion:
    total = facts.pilot.budgets.total
    return Criterion("within_budget", facts.spent <= total, f"{facts.spent:.6g} of {total:g} spent")


def power_criterion(power: PowerAnalysis) -> Criterion:
    """Decide whether the power analysis supports the planned counts."""
    worst, target = power.worst, power.assumptions.target
    counts = f"{power.tasks} tasks with {power.repeats} repeats"
    evidence = (
        f"power {worst.power:.1%} for an effect of {power.assumptions.effect:g} with {counts}, in the worst case "
        f"(rate {worst.rate:g}, correlation {worst.correlation:g}); target {target:.0%}"
    )
    if power.problems:
        evidence += f"; the simulation is not monotone: {power.problems[0]}"
    if not power.supported:
        evidence += f"; {needed_text(power)}"
    return Criterion("power_supported", power.supported, evidence)


def _remaining_budget(facts: StageFacts) -> Criterion:
    """Project the rest of the plan from the mean cost of each method so far."""
    complete = {attempt.key for attempt in facts.observations if attempt.complete}
    costs: dict[str, list[float]] = {}
    for attempt in facts.observations:
        costs.setdefault(attempt.method, []).append(attempt.cost)
    means: Mapping[str, float] = {method: sum(values) / len(values) for method, values in costs.items()}
    rest = [line for line in facts.lines if line.key not in complete]
    expected = sum(means.get(line.method, facts.pilot.budgets.run) for line in rest)
    remaining = facts.pilot.budgets.total - facts.spent
    evidence = f"{len(rest)} attempts are expected to cost {expected:.6g}, {remaining:.6g} of the budget is left"
    if rest and expected > remaining:
        per_block = sum(means.get(method, facts.pilot.budgets.run) for method in facts.pilot.names)
        blocks = int(remaining / per_block) if per_block and remaining > 0 else 0
        done = min(line.repeat for line in rest) - 1
        fits = done + blocks // max(1, len(_tasks(facts)))
        evidence += f"; {fits} repeats in all would fit"
    return Criterion("budget_remaining", expected <= remaining, evidence)


def _listed(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f": {', '.join(names[:LISTED])}{more}"


def next_stage(completed: frozenset[str]) -> str | None:
    return next((stage for stage in STAGES if stage not in completed), None)
