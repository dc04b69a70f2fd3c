"""`--dry-run`: estimate the cost, time and minimum detectable effect of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import click

from agentbench.cli.stopping import running_rule, too_few_tasks
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError
from agentbench.execution.models import read_prices
from agentbench.execution.open_study import planned_meta
from agentbench.execution.plan import PlanRow
from agentbench.execution.retry import counts
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.reports.attempt_table import retry_of
from agentbench.reports.number_format import plural

if TYPE_CHECKING:
    from agentbench.execution.request import RunRequest

DISCORDANT = 0.3
"""Assumed share of tasks on which two methods differ, if no earlier runs are available."""
SIMULATED_STUDIES = 1_000
LARGE_EFFECT = 0.3
"""Difference for which attempts are estimated if no effect is detectable."""
CORRELATION = 0.5
"""Assumed correlation of repeats of one task."""


@dataclass(frozen=True, slots=True)
class StoppingEstimate:
    """The stopping rule of `--stop-when` and the attempts that it is expected to need."""

    rule: str
    maximum: int
    can_decide: bool
    warning: str
    """Why it cannot decide, and how many tasks it needs; empty if it can."""
    expected_if_equal: float
    expected_if_different: float
    power: float
    effect: float
    assumptions: str

    def lines(self) -> list[str]:
        attempts = (
            f"at most {self.maximum}; expected {self.expected_if_equal:.0f} if the methods are equal,"
            f" {self.expected_if_different:.0f} if they differ by {self.effect * 100:.0f} points"
            f" (power {self.power:.2f}; {self.assumptions})"
        )
        lines = [f"  stopping rule              {self.rule}", f"  attempts                   {attempts}"]
        if self.warning:
            lines.append(f"  warning: {self.warning}")
        return lines


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate from earlier attempts; None where there are none."""

    attempts: int
    tasks: int
    variants: tuple[str, ...]
    repeats: int
    workers: int
    earlier: int
    cost: float | None
    unit: str
    cost_cap: float
    """Maximum cost that the caps allow."""
    seconds: float | None
    detectable: float | None
    assumptions: str
    stopping: StoppingEstimate | None = None

    def as_json(self) -> str:
        return json.dumps(
            {
                "dry_run": True,
                "attempts": self.attempts,
                "tasks": self.tasks,
                "variants": list(self.variants),
                "repeats": self.repeats,
                "earlier_attempts": self.earlier,
                "expected_cost": self.cost,
                "cost_unit": self.unit,
                "cost_cap": self.cost_cap,
                "cost_cap_unit": self.unit,
                "expected_sec": self.seconds,
                "minimum_detectable_effect": self.detectable,
                "assumptions": self.assumptions,
                **({"stopping": asdict(self.stopping)} if self.stopping else {}),
            }
        )

    def as_text(self) -> str:
        basis = f"from {plural(self.earlier, 'earlier attempt')}" if self.earlier else "no similar attempts"
        if self.earlier and self.cost is None:
            basis = f"earlier attempts have no costs in {self.unit}"
        cost = "unknown" if self.cost is None else f"{self.cost:.4g} {self.unit}"
        over = ": attempts will remain" if self.cost is not None and self.cost > self.cost_cap else ""
        time = "unknown" if self.seconds is None else _duration(self.seconds)
        effect = f"no effect is detectable with {plural(self.tasks, 'task')}"
        if self.detectable is not None:
            effect = f"{self.detectable * 100:.0f} points between two methods"
        factors = [plural(self.tasks, "task"), plural(len(self.variants), "method"), plural(self.repeats, "repeat")]
        return "\n".join(
            (
                f"{plural(self.attempts, 'attempt')}: {' × '.join(factors)}",
                f"  expected cost              {cost} ({basis}), maximum {self.cost_cap:g} {self.unit}{over}",
                f"  expected time              {time} with {plural(self.workers, 'worker')}",
                f"  minimum detectable effect  {effect} ({self.assumptions})",
                *(self.stopping.lines() if self.stopping else ()),
                "Dry run: nothing was executed.",
            )
        )


def print_estimate(estimate: Estimate, *, as_json: bool) -> None:
    click.echo(estimate.as_json() if as_json else estimate.as_text())


def estimate(rows: Sequence[PlanRow], request: RunRequest) -> Estimate:
    """Estimate a plan from earlier runs in `--out`, without running or writing anything."""
    past = _earlier(request.out)
    variants = tuple(dict.fromkeys(row.configuration.variant for row in rows))
    names = {row.task.id for row in rows}
    tasks = len(names)
    repeats = max((row.repeat for row in rows), default=0)
    unit = read_prices(Path(request.prices) if request.prices else None).unit
    priced = [record for record in past if record.cost.unit == unit]
    seconds = _expected(rows, past, lambda record: record.duration_sec)
    detectable, assumptions = _detectable(tasks, repeats, variants, past)
    return Estimate(
        attempts=len(rows),
        tasks=tasks,
        variants=variants,
        repeats=repeats,
        workers=request.workers,
        earlier=sum(record.task_id in names or record.variant in variants for record in past),
        cost=_expected(rows, priced, lambda record: record.cost.total),
        unit=unit,
        cost_cap=_cost_cap(rows, request),
        seconds=None if seconds is None else seconds / request.workers,
        detectable=detectable,
        assumptions=assumptions,
        stopping=_estimate_stopping(rows, request, detectable),
    )


def _estimate_stopping(
    rows: Sequence[PlanRow], request: RunRequest, detectable: float | None
) -> StoppingEstimate | None:
    """Simulate the stopping rule for equal methods, and for methods that differ by the minimum detectable effect."""
    rule = running_rule(planned_meta(rows, request), lambda _: None)
    if rule is None:
        return None
    from agentbench.reports.sequential_text import describe_rule
    from agentbench.statistics.power import Design
    from agentbench.statistics.sequential.simulate import simulate_rule

    declared = rule.declared
    planned = declared.planned
    warning = too_few_tasks(declared.rule, planned)
    effect = min(1.0, detectable or LARGE_EFFECT)
    rates = (0.5 - effect / 2, 0.5 + effect / 2)
    equal, different = (
        simulate_rule(
            declared.rule,
            Design(planned.tasks, planned.repeats, *pair, CORRELATION),
            simulations=SIMULATED_STUDIES,
            seed=request.seed,
        )
        for pair in ((0.5, 0.5), rates)
    )
    return StoppingEstimate(
        rule=describe_rule(declared.rule, planned),
        maximum=planned.attempts,
        can_decide=not warning,
        warning=warning,
        expected_if_equal=equal.attempts,
        expected_if_different=different.attempts,
        power=different.decided,
        effect=effect,
        assumptions=f"{SIMULATED_STUDIES} simulated studies, pass rates {rates[0]:.0%} and {rates[1]:.0%},"
        f" correlation of repeats {CORRELATION:g}",
    )


def _cost_cap(rows: Sequence[PlanRow], request: RunRequest) -> float:
    """Return the maximum cost that the caps of attempts, tasks and the run allow together."""
    by_task: dict[str, float] = {}
    for row in rows:
        by_task[row.task.id] = by_task.get(row.task.id, 0.0) + row.task.task.budget.usd
    task = math.inf if request.task_usd is None else request.task_usd
    total = math.inf if request.total_usd is None else request.total_usd
    return min(sum(min(cost, task) for cost in by_task.values()), total)


def _earlier(out: Path) -> list[AttemptRecord]:
    """Return the earlier attempts that count in a rate, each once although runs are copied.

    A run of `ab retry` repeats only what did not pass, so it is left out, as in `ab view`.
    """
    attempts: dict[str, AttemptRecord] = {}
    for folder in sorted(out.glob("*")) if out.is_dir() else ():
        with suppress(AgentBenchError):
            run = RunDirectory.open(folder)
            if retry_of(run.meta) is None:
                attempts.update((record.attempt_id, record) for record in run.finals() if counts(record))
    return list(attempts.values())


def _expected(
    rows: Sequence[PlanRow], past: Sequence[AttemptRecord], value: Callable[[AttemptRecord], float]
) -> float | None:
    """Return the sum over the plan of the median of the same task and method, else of the method, else of the task."""
    similar: dict[tuple[str, str], list[float]] = {}
    for record in past:
        for key in ((record.task_id, record.variant), ("", record.variant), (record.task_id, "")):
            similar.setdefault(key, []).append(value(record))
    known = []
    for row in rows:
        task, variant = row.task.id, row.configuration.variant
        values = similar.get((task, variant)) or similar.get(("", variant)) or similar.get((task, ""))
        if values:
            known.append(median(values))
    # Attempts without an estimate are assumed to be like the others.
    return sum(known) * len(rows) / len(known) if known else None


def _detectable(
    tasks: int, repeats: int, variants: tuple[str, ...], past: Sequence[AttemptRecord]
) -> tuple[float | None, str]:
    from agentbench.statistics.power import detectable_single

    discordant, source = DISCORDANT, "assumed"
    measured = _discordant(variants, past)
    if measured is not None:
        discordant, source = measured, "from earlier runs"
    # Repeats of one task carry less information than further tasks.
    effective = max(int(tasks * repeats / (1 + (repeats - 1) * CORRELATION)), 1) if tasks else 0
    differing = math.ceil(discordant * effective)
    detectable = detectable_single(differing, 0, effective)
    assumptions = f"{discordant:.0%} discordant tasks {source}, power {detectable.power:g}, α = {detectable.alpha:g}"
    if repeats > 1:
        assumptions += f", correlation of repeats {CORRELATION:g} assumed"
    return detectable.effect, assumptions


def _discordant(variants: tuple[str, ...], past: Iterable[AttemptRecord]) -> float | None:
    """Return the mean difference of two methods over tasks in earlier runs, or None with fewer than 5 common tasks."""
    if len(variants) < 2:
        return None
    rates: dict[tuple[str, str], list[bool]] = {}
    for record in past:
        if record.variant in variants[:2]:
            rates.setdefault((record.task_id, record.variant), []).append(record.result.passed)
    both = [task for task, variant in rates if variant == variants[0] and (task, variants[1]) in rates]
    if len(both) < 5:
        return None
    return fmean(abs(fmean(rates[task, variants[0]]) - fmean(rates[task, variants[1]])) for task in both)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
