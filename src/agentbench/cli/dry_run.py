"""`--dry-run`: what would be run, what it may cost and take, and how small a difference it could show."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import click

from agentbench.core.errors import AgentBenchError
from agentbench.core.reasons import RunStatus
from agentbench.record.run_directory import RunDirectory
from agentbench.record.schema import AttemptRecord
from agentbench.reports.number_format import plural
from agentbench.run.plan import PlanRow

if TYPE_CHECKING:
    from agentbench.run.request import RunRequest

DISCORDANT = 0.3
"""Planning assumption: the share of tasks on which two methods differ, where no earlier runs tell."""
CORRELATION = 0.5
"""Planning assumption: correlation of repeats of one task."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What earlier attempts suggest. None: there are none to go by."""

    attempts: int
    tasks: int
    variants: tuple[str, ...]
    repeats: int
    workers: int
    earlier: int
    cost: float | None
    unit: str
    most: float
    """What the caps of all attempts allow together."""
    seconds: float | None
    detectable: float | None
    assumed: str

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
                "cost_cap": self.most,
                "expected_sec": self.seconds,
                "minimum_detectable_effect": self.detectable,
                "assumptions": self.assumed,
            }
        )

    def as_text(self) -> str:
        known = f"from {self.earlier} earlier attempts" if self.earlier else "no earlier attempts to go by"
        cost = "unknown" if self.cost is None else f"{self.cost:.4g} {self.unit}"
        time = "unknown" if self.seconds is None else _duration(self.seconds)
        if self.detectable is None:
            effect = f"no difference can be relied on to show ({self.assumed})"
        else:
            effect = f"{self.detectable:.0%} difference between two methods ({self.assumed})"
        factors = [plural(self.tasks, "task"), plural(len(self.variants), "method"), plural(self.repeats, "repeat")]
        return "\n".join(
            (
                f"{plural(self.attempts, 'attempt')}: {' × '.join(factors)}",
                f"  expected cost  {cost} ({known}); caps allow at most {self.most:g}",
                f"  expected time  {time} with {plural(self.workers, 'worker')}",
                f"  would show     {effect}",
                "nothing was run",
            )
        )


def print_estimate(estimate: Estimate, *, as_json: bool) -> None:
    click.echo(estimate.as_json() if as_json else estimate.as_text())


def estimate(rows: Sequence[PlanRow], request: RunRequest) -> Estimate:
    """Read earlier runs below `--out`; nothing is written and nothing is run."""
    past = [record for record in _earlier(request.out) if record.run_status is not RunStatus.INVALID]
    variants = tuple(dict.fromkeys(row.configuration.variant for row in rows))
    tasks = len({row.task.id for row in rows})
    repeats = max((row.repeat for row in rows), default=0)
    expected = [_expected(row, past) for row in rows]
    known = [one for one in expected if one is not None]
    # What is unknown is taken to be like what is known.
    scale = len(rows) / len(known) if known else 0.0
    detectable, assumed = _detectable(tasks, repeats, variants, past)
    return Estimate(
        attempts=len(rows),
        tasks=tasks,
        variants=variants,
        repeats=repeats,
        workers=request.workers,
        earlier=len(past),
        cost=sum(one[0] for one in known) * scale if known else None,
        unit=past[-1].cost.unit if past else "usd",
        most=_most(rows, request),
        seconds=sum(one[1] for one in known) * scale / request.workers if known else None,
        detectable=detectable,
        assumed=assumed,
    )


def _most(rows: Sequence[PlanRow], request: RunRequest) -> float:
    """What the caps of runs, tasks and the whole allow together."""
    by_task: dict[str, float] = {}
    for row in rows:
        by_task[row.task.id] = by_task.get(row.task.id, 0.0) + row.task.task.budget.usd
    task = math.inf if request.task_usd is None else request.task_usd
    total = math.inf if request.total_usd is None else request.total_usd
    return min(sum(min(one, task) for one in by_task.values()), total)


def _earlier(out: Path) -> Iterator[AttemptRecord]:
    for folder in sorted(out.glob("*")) if out.is_dir() else ():
        try:
            yield from RunDirectory.open(folder).finals()
        except AgentBenchError:
            continue


def _expected(row: PlanRow, past: Sequence[AttemptRecord]) -> tuple[float, float] | None:
    """Median cost and time: of the same task and method, else of the method, else of the task."""
    variant, task = row.configuration.variant, row.task.id
    same = (
        [one for one in past if (one.task_id, one.variant) == (task, variant)],
        [one for one in past if one.variant == variant],
        [one for one in past if one.task_id == task],
    )
    alike = next((found for found in same if found), None)
    if alike is None:
        return None
    return median(one.cost.total for one in alike), median(one.duration_sec for one in alike)


def _detectable(
    tasks: int, repeats: int, variants: tuple[str, ...], past: Sequence[AttemptRecord]
) -> tuple[float | None, str]:
    from agentbench.statistics.power import detectable_single

    discordant, where = DISCORDANT, "assumed"
    measured = _discordant(variants, past)
    if measured is not None:
        discordant, where = measured, "as in earlier runs"
    # Repeats of one task tell less than further tasks would.
    effective = max(int(tasks * repeats / (1 + (repeats - 1) * CORRELATION)), 1) if tasks else 0
    differing = math.ceil(discordant * effective)
    found = detectable_single(differing, 0, effective)
    words = f"{discordant:.0%} of tasks differ, {where}; power {found.power:g}, α {found.alpha:g}"
    if repeats > 1:
        words += f"; correlation of repeats {CORRELATION:g}, assumed"
    return found.effect, words


def _discordant(variants: tuple[str, ...], past: Iterable[AttemptRecord]) -> float | None:
    """The share of tasks that two of these methods decided differently before."""
    if len(variants) < 2:
        return None
    rates: dict[tuple[str, str], list[bool]] = {}
    for one in past:
        if one.variant in variants[:2]:
            rates.setdefault((one.task_id, one.variant), []).append(one.result.passed)
    both = [task for task, variant in rates if variant == variants[0] and (task, variants[1]) in rates]
    if len(both) < 5:
        return None
    return fmean(abs(fmean(rates[task, variants[0]]) - fmean(rates[task, variants[1]])) for task in both)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
