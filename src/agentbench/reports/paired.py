"""Two methods on the same tasks: whether they may be compared at all, then the decision and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.record.headline import headline
from agentbench.reports.figures import percent, plural, point_interval, points, probability, total
from agentbench.reports.provenance import read_provenance
from agentbench.reports.record_rows import Row
from agentbench.reports.sources import Side
from agentbench.statistics.comparability import Comparability, hold_against, named
from agentbench.statistics.paired import Comparison, Method, PairedTask, Pairing, compare, pair
from agentbench.statistics.trials import Rate
from agentbench.statistics.undecided_bounds import difference_bounds

MOST_FLIPS = 2_000
"""Flips that are told with their verdicts; all are counted."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A task the two sides did not do equally well."""

    task: str
    mean_a: float
    mean_b: float
    why_a: tuple[str, ...]
    why_b: tuple[str, ...]
    rows_a: tuple[Row, ...]
    rows_b: tuple[Row, ...]

    @property
    def gain(self) -> float:
        return self.mean_b - self.mean_a


@dataclass(frozen=True, slots=True)
class PairedReport:
    a: Side
    b: Side
    comparability: Comparability
    comparison: Comparison
    other: Comparison | None
    """The same under the other rate; None when nothing can be paired under it."""
    flips: tuple[Flip, ...]
    """The largest first."""
    bounds: tuple[float, float] | None
    """B minus A over common tasks if every undecided attempt had gone against B, and if all had gone for it."""
    new_safety: tuple[str, ...]
    """Tasks at which B broke a rule or was stopped as unsafe and A never was."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What must be said beside every number."""
        held = self.comparability
        labels = []
        if held.across_versions:
            labels.append("ACROSS CONTRACT VERSIONS")
        if held.deviations or held.differences:
            labels.append("PROVISIONAL")
        return tuple(labels)

    @property
    def cannot_detect(self) -> bool:
        """Whether a true difference as large as the one seen would often have been missed."""
        found = self.comparison.detectable
        return found is None or not found.reaches(self.comparison.difference)


def compare_sides(
    a: Side, b: Side, *, rate: Rate = Rate.CONTRACT, across_versions: bool = False, method: Method = Method.TEST
) -> PairedReport:
    """Hold two sides against each other.

    Raises:
        InputError: no task can be compared, or the contracts differ and that was not asked for.
    """
    held = hold_against(a.identities, b.identities)
    if held.across_versions and not across_versions:
        msg = f"the contract of {plural(len(held.across_versions), 'task')} differs between the two runs: {named(held.across_versions)}"
        raise InputError(
            msg, remedy="results are per contract version; --across-versions compares them anyway and says so"
        )
    homes = _repositories(a, b)
    pairing = pair(a.trials, b.trials, rate)
    comparison = compare(pairing, rate, method=method, repositories=homes)
    if comparison is None:
        raise InputError(_nothing_in_common(pairing, a, b))
    other_rate = Rate.ACCEPTANCE if rate is Rate.CONTRACT else Rate.CONTRACT
    differing = sorted(
        (one for one in comparison.pairing.pairs if one.difference), key=lambda one: (-abs(one.difference), one.task)
    )
    return PairedReport(
        a=a,
        b=b,
        comparability=held,
        comparison=comparison,
        other=compare(pair(a.trials, b.trials, other_rate), other_rate, method=method, repositories=homes),
        flips=tuple(_flip(one, a, b) for one in differing[:MOST_FLIPS]),
        bounds=difference_bounds(a.trials, b.trials),
        new_safety=_new_safety(a, b),
    )


def _nothing_in_common(pairing: Pairing, a: Side, b: Side) -> str:
    if pairing.uncounted:
        return (
            f"nothing to compare: at each of the {plural(len(pairing.uncounted), 'common task')} one side has only invalid runs "
            f"({named(pairing.uncounted)})"
        )
    return f"nothing to compare: {a.origin} and {b.origin} have no task in common"


def decision(report: PairedReport) -> str:
    """The first line."""
    found = report.comparison
    interval = found.bootstrap if found.method is Method.BOOTSTRAP else found.interval
    shown = f"{points(found.difference)} ({point_interval(interval)}), {_tests(found)}, {plural(len(found.pairing.pairs), 'task')}"
    shown += f", {detectable(report)}"
    label = "".join(f" [{one}]" for one in report.labels)
    if found.better is None:
        return f"NO DIFFERENCE SHOWN: B minus A {shown}{label}"
    return f"{found.better} BETTER: B minus A {shown}{label}"


def detectable(report: PairedReport) -> str:
    """What this comparison could have shown, in a few words."""
    comparison, found = report.comparison, report.comparison.detectable
    if found is None or found.effect is None:
        if comparison.better:
            return "though a comparison this small would often miss it"
        if comparison.method is Method.TEST and comparison.differing < comparison.least:
            some = f"{comparison.differing} differ{'s' if comparison.differing == 1 else ''}"
            return f"cannot detect anything: {some}, {comparison.least} must"
        return "cannot detect any difference reliably"
    words = f"{found.effect * 100:.1f} points"
    if not report.cannot_detect:
        return f"detects {words} or more"
    if comparison.better:
        return f"less than the {words} it detects reliably"
    return f"cannot detect so little: {words} or more would show"


def _tests(found: Comparison) -> str:
    if found.method is Method.BOOTSTRAP:
        return "bootstrap over tasks"
    if found.contingency:
        return f"mid-p {probability(found.mcnemar_mid_p)}, exact {probability(found.mcnemar_exact)}"
    return f"sign-flip p {probability(found.sign_flip)}"


def cost_of(side: Side) -> float | None:
    """What a side spent in all; None when some cost is not known or units are mixed."""
    costs = [trial.cost for trial in side.trials]
    units = {row.cost.unit for row in side.run.rows} if side.run else set()
    return None if len(units) > 1 or any(cost is None for cost in costs) else total([cost or 0.0 for cost in costs])


def cost_units(report: PairedReport) -> tuple[str, ...]:
    """The units that the two sides' costs are in, as far as they are known."""
    return tuple(sorted({row.cost.unit for side in (report.a, report.b) if side.run for row in side.run.rows}))


def costs_per_attempt(report: PairedReport) -> tuple[float, float] | None:
    """What an attempt cost on each side: the mean over the tasks both ran of each task's mean.

    Tasks that only one side ran say nothing about the other, and a task with more repeats weighs no more than one with fewer.
    None when some cost is not known or the units differ.
    """
    left, right = ({} if len(cost_units(report)) > 1 else _task_costs(side) for side in (report.a, report.b))
    common = [task for task in left if task in right]
    pairs = [(left[task], right[task]) for task in common]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known or len(known) < len(pairs):
        return None
    return total([a for a, _ in known]) / len(known), total([b for _, b in known]) / len(known)


def _task_costs(side: Side) -> dict[str, float | None]:
    tasks: dict[str, list[float | None]] = {}
    for trial in side.trials:
        tasks.setdefault(trial.task, []).append(trial.cost)
    return {
        task: None if None in costs else total([cost or 0.0 for cost in costs]) / len(costs)
        for task, costs in tasks.items()
    }


def shares(flip: Flip) -> str:
    return f"{percent(flip.mean_a)} → {percent(flip.mean_b)}"


# --- parts --------------------------------------------------------------------------------------------------------------


def _repositories(a: Side, b: Side) -> dict[str, str]:
    found: dict[str, str] = {}
    for side in (b, a):
        if side.run:
            found |= read_provenance(side.run.path, side.run.rows).repositories
    return found


def _flip(one: PairedTask, a: Side, b: Side) -> Flip:
    left, right = (tuple(side.by_task.get(one.task, ())) for side in (a, b))
    return Flip(
        task=one.task,
        mean_a=float(one.mean_a),
        mean_b=float(one.mean_b),
        why_a=_whys(a, left),
        why_b=_whys(b, right),
        rows_a=left,
        rows_b=right,
    )


def _whys(side: Side, rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(headline(record) for record in side.run.records(rows)) if side.run else ()


def _new_safety(a: Side, b: Side) -> tuple[str, ...]:
    before, after = ({task for task, unsafe in _safety(side) if unsafe} for side in (a, b))
    ran = {trial.task for trial in a.trials}
    return tuple(sorted(task for task in after - before if task in ran))


def _safety(side: Side) -> list[tuple[str, bool]]:
    if side.run:
        return [(row.task, row.cause == "safety" or row.gates[3] is Outcome.FAIL) for row in side.run.rows]
    return [(trial.task, trial.invalid_cause == "safety") for trial in side.trials]
