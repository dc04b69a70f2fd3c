"""Paired comparison of two methods on the same tasks: comparability first, then the decision and its evidence.

`compare_sides` computes the report; `decision` is its first line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.reasons import Outcome
from agentbench.record.headline import headline
from agentbench.reports.deviations import makes_provisional, provenance_of, side_deviations
from agentbench.reports.number_format import percent, plural, point_interval, points, probability, total
from agentbench.reports.record_rows import Row
from agentbench.reports.sequential_text import margin_limits, rule_name, unadjusted_deviation
from agentbench.reports.sources import Side, refuse_without_results
from agentbench.reports.stopping import StoppedComparison, stopped_comparison
from agentbench.statistics.comparability import Comparability, compare_identities, join_names
from agentbench.statistics.intervals import CONFIDENCE, Interval, newcombe_paired
from agentbench.statistics.paired import Comparison, Method, PairedTask, Pairing, compare, pair
from agentbench.statistics.sequential.rules import SequentialDecision, SequentialOutcome
from agentbench.statistics.trials import Rate
from agentbench.statistics.undecided_bounds import difference_bounds

MAX_FLIPS = 2_000
"""Differing tasks listed with their verdicts; all are counted."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.@:/+-]{1,60}")


@dataclass(frozen=True, slots=True)
class Flip:
    """A task at which the two sides differ."""

    task: str
    mean_a: float
    mean_b: float
    headlines_a: tuple[str, ...]
    headlines_b: tuple[str, ...]
    rows_a: tuple[Row, ...]
    rows_b: tuple[Row, ...]

    @property
    def gain(self) -> float:
        return self.mean_b - self.mean_a

    @property
    def shares(self) -> str:
        return f"{percent(self.mean_a)} → {percent(self.mean_b)}"


@dataclass(frozen=True, slots=True)
class PairedReport:
    a: Side
    b: Side
    comparability: Comparability
    comparison: Comparison
    other: Comparison | None
    """The same comparison under the other rate; None when nothing can be paired under it."""
    flips: tuple[Flip, ...]
    """Largest difference first."""
    bounds: tuple[float, float] | None
    """B - A over common tasks if every undecided attempt had counted against B, and if all had counted for it."""
    new_safety: tuple[str, ...]
    """Tasks at which B broke a rule or had a safety stop, but A did not."""
    margin: float | None = None
    """The equivalence margin of a gate."""
    deviations: tuple[str, ...] = ()
    """Protocol deviations of both sides, seeds included."""
    stopped: StoppedComparison | None = None
    """The stopping rule of both runs; its adjusted interval and p-value replace the ordinary ones."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Warnings that belong beside every number."""
        labels = []
        if self.comparability.across_versions:
            labels.append("ACROSS CONTRACT VERSIONS")
        if makes_provisional(self.deviations) or self.comparability.differences:
            labels.append("PROVISIONAL")
        return tuple(labels)

    @property
    def adjusted(self) -> SequentialDecision | None:
        """The decision of the stopping rule."""
        return self.stopped.decision if self.stopped else None

    @property
    def better(self) -> str | None:
        """`A` or `B` if it is significantly better, else None."""
        if self.stopped is None:
            return self.comparison.better
        if self.adjusted is None:
            return None
        return {SequentialOutcome.A_BETTER: "A", SequentialOutcome.B_BETTER: "B"}.get(self.adjusted.outcome)

    @property
    def underpowered(self) -> bool:
        """Whether a true difference as large as the observed one would often be missed."""
        detectable = self.comparison.detectable
        return detectable is None or not detectable.reaches(self.comparison.difference)

    @property
    def interval(self) -> Interval | None:
        """The interval shown beside the difference."""
        if self.stopped is not None:
            return self.adjusted.interval if self.adjusted else None
        return self.comparison.bootstrap if self.comparison.method is Method.BOOTSTRAP else self.comparison.interval

    @property
    def equivalent(self) -> bool:
        """Whether the confidence interval lies inside the margin of the gate."""
        if self.margin is None:
            return False
        interval = self.interval or difference_interval(self.comparison)
        return interval is not None and -self.margin < interval.low and interval.high < self.margin

    @property
    def difference_name(self) -> str:
        """`reference − partial`; `B − A` where the names are equal or cannot be printed as they are."""
        names = (self.b.name, self.a.name)
        if names[0] == names[1] or not all(map(_PLAIN_NAME.fullmatch, names)):
            names = ("B", "A")
        return " − ".join(names)


def compare_sides(
    a: Side,
    b: Side,
    *,
    rate: Rate = Rate.CONTRACT,
    across_versions: bool = False,
    method: Method = Method.TEST,
    margin: float | None = None,
) -> PairedReport:
    """Compare two sides over their common tasks.

    Raises:
        InputError: no task can be compared, or contracts differ and `across_versions` is not set.
    """
    for side in (a, b):
        refuse_without_results(side)
    comparability = compare_identities(a.identities, b.identities)
    if comparability.across_versions and not across_versions:
        tasks = comparability.across_versions
        msg = f"the contract of {plural(len(tasks), 'task')} differs between the runs: {join_names(tasks)}"
        raise InputError(msg, remedy="results are per contract version; use --across-versions to compare them anyway")
    provenance_a, provenance_b = provenance_of(a), provenance_of(b)
    stopped = stopped_comparison(a, b, rate)
    repositories = {**provenance_b.repositories, **provenance_a.repositories}
    pairing = pair(a.trials, b.trials, rate)
    comparison = compare(pairing, rate, method=method, repositories=repositories)
    if comparison is None:
        raise InputError(_nothing_to_compare(pairing, a, b))
    other_rate = Rate.ACCEPTANCE if rate is Rate.CONTRACT else Rate.CONTRACT
    differing = sorted(
        (task for task in comparison.pairing.pairs if task.difference),
        key=lambda task: (-abs(task.difference), task.task),
    )
    return PairedReport(
        a=a,
        b=b,
        comparability=comparability,
        comparison=comparison,
        other=compare(pair(a.trials, b.trials, other_rate), other_rate, method=method, repositories=repositories),
        flips=tuple(_flip(task, a, b) for task in differing[:MAX_FLIPS]),
        bounds=difference_bounds(a.trials, b.trials),
        new_safety=_new_safety(a, b),
        margin=margin,
        deviations=(
            *comparability.deviations,
            *side_deviations(a, "A", provenance_a),
            *side_deviations(b, "B", provenance_b),
            *(() if stopped else (*unadjusted_deviation(a, "A"), *unadjusted_deviation(b, "B"))),
        ),
        stopped=stopped,
    )


def difference_interval(comparison: Comparison, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of B - A at a confidence, also when no task differs.

    Without any difference there is no variance, but the number of equal tasks still bounds the difference.
    """
    again = compare(comparison.pairing, comparison.rate, confidence)
    interval = again.interval if again else None
    if interval is None and not comparison.discordant:
        return newcombe_paired(len(comparison.pairing.pairs), 0, 0, 0, confidence)
    return interval


def _nothing_to_compare(pairing: Pairing, a: Side, b: Side) -> str:
    if pairing.uncounted:
        tasks = join_names(pairing.uncounted)
        return f"nothing to compare: one side has only invalid attempts at every common task ({tasks})"
    return f"nothing to compare: {a.origin} and {b.origin} have no task in common"


def _flip(task: PairedTask, a: Side, b: Side) -> Flip:
    rows_a, rows_b = (tuple(side.by_task.get(task.task, ())) for side in (a, b))
    return Flip(
        task=task.task,
        mean_a=float(task.mean_a),
        mean_b=float(task.mean_b),
        headlines_a=_headlines(a, rows_a),
        headlines_b=_headlines(b, rows_b),
        rows_a=rows_a,
        rows_b=rows_b,
    )


def _headlines(side: Side, rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(headline(record) for record in side.run.records(rows)) if side.run else ()


def _new_safety(a: Side, b: Side) -> tuple[str, ...]:
    unsafe_a, unsafe_b = ({task for task, unsafe in _safety(side) if unsafe} for side in (a, b))
    ran = {trial.task for trial in a.trials}
    return tuple(sorted(task for task in unsafe_b - unsafe_a if task in ran))


def _safety(side: Side) -> list[tuple[str, bool]]:
    if side.run:
        return [(row.task, row.cause == "safety" or row.gates[3] is Outcome.FAIL) for row in side.run.rows]
    return [(trial.task, trial.invalid_cause == "safety") for trial in side.trials]


# --- decision ---------------------------------------------------------------------------------------------------------


def decision(report: PairedReport) -> str:
    """The first line: decision, effect with interval, p-value with its test, number of tasks, power.

    A significant difference decides first; EQUIVALENT needs a gate with a margin.
    """
    comparison = report.comparison
    if report.stopped is not None:
        return _marked(report, _stopped_decision(report))
    word = "INCONCLUSIVE"
    interval = report.interval
    if comparison.better:
        word = f"{comparison.better} IS BETTER"
    elif report.equivalent:
        word, interval = "EQUIVALENT", interval or difference_interval(comparison)
    margins = () if report.margin is None else (-report.margin, report.margin)
    effect = f"{report.difference_name} = {points(comparison.difference)} ({point_interval(interval, *margins)})"
    tasks = plural(len(comparison.pairing.pairs), "task")
    return _marked(report, f"{word}: {effect}, {_deciding_test(comparison)}, {tasks}. {power_sentence(report)}")


_WORDS = {
    SequentialOutcome.CONTINUE: "UNDECIDED",
    SequentialOutcome.A_BETTER: "A IS BETTER",
    SequentialOutcome.B_BETTER: "B IS BETTER",
    SequentialOutcome.EQUIVALENT: "EQUIVALENT",
    SequentialOutcome.FUTILE: "FUTILE",
    SequentialOutcome.INCONCLUSIVE: "INCONCLUSIVE",
}


def _stopped_decision(report: PairedReport) -> str:
    """Return the decision of the stopping rule, with the interval and p-value adjusted for its looks."""
    decision = report.adjusted
    if decision is None or decision.difference is None:
        return "UNDECIDED: the first look of the stopping rule is not complete."
    interval = point_interval(decision.interval, *margin_limits(decision))
    effect = f"{report.difference_name} = {points(decision.difference)} (adjusted {interval})"
    test = f"adjusted p = {probability(decision.adjusted_p)} ({rule_name(decision.rule)})"
    made, planned = 2 * decision.blocks, 2 * decision.planned_blocks
    place = f"Look {decision.look} of {decision.looks}, {made} of {planned} planned attempts"
    return f"{_WORDS[decision.outcome]}: {effect}, {test}, {plural(decision.tasks, 'task')}. {place}."


def _marked(report: PairedReport, line: str) -> str:
    """Add the labels of the report, and what was altered."""
    line += "".join(f" [{label}]" for label in report.labels)
    for name, side in (("B", report.b), ("A", report.a)):
        line = side.run.mark(line, name) if side.run else line
    return line


def power_sentence(report: PairedReport) -> str:
    """State the power of the comparison in one sentence."""
    comparison, detectable = report.comparison, report.comparison.detectable
    by_test = comparison.method is Method.TEST
    if by_test and not comparison.better and comparison.discordant < comparison.min_discordant:
        required = f"at least {comparison.min_discordant} are needed for significance"
        if not comparison.discordant:
            return f"No task differs; {required}."
        differ = "1 task differs" if comparison.discordant == 1 else f"{comparison.discordant} tasks differ"
        return f"Underpowered: {differ}, {required}."
    if detectable is None or detectable.effect is None:
        return (
            f"Underpowered: with {plural(len(comparison.pairing.pairs), 'task')}, no effect is detectable at 80% power."
        )
    effect = f"{detectable.effect * 100:.1f} points"
    if report.underpowered:
        return f"Underpowered: the minimum detectable effect is {effect}."
    return f"Minimum detectable effect: {effect}."


def _deciding_test(comparison: Comparison) -> str:
    if comparison.method is Method.BOOTSTRAP:
        return "bootstrap over tasks"
    name = "McNemar mid-p" if comparison.contingency else "sign-flip test"
    return f"p = {probability(comparison.p_value)} ({name})"


# --- costs ------------------------------------------------------------------------------------------------------------


def cost_of(side: Side) -> float | None:
    """Total cost of a side; None if a cost is unknown or units are mixed."""
    costs = [trial.cost for trial in side.trials]
    units = {row.cost.unit for row in side.run.rows} if side.run else set()
    return None if len(units) > 1 or any(cost is None for cost in costs) else total([cost or 0.0 for cost in costs])


def cost_units(report: PairedReport) -> tuple[str, ...]:
    """Known cost units of both sides."""
    return tuple(sorted({row.cost.unit for side in (report.a, report.b) if side.run for row in side.run.rows}))


def costs_per_attempt(report: PairedReport, *, graded: bool = True) -> tuple[float, float] | None:
    """Mean cost of an attempt on each side: the mean over common tasks of each task's mean.

    Tasks that only one side ran are left out, and every task has the same weight whatever its number of repeats. None
    if a cost is unknown or the units differ. Without `graded`, the cost of checks does not count.
    """
    sides = (report.a, report.b)
    costs_a, costs_b = ({} if len(cost_units(report)) > 1 else _task_costs(side, graded=graded) for side in sides)
    pairs = [(costs_a[task], costs_b[task]) for task in costs_a if task in costs_b]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not known or len(known) < len(pairs):
        return None
    return total([a for a, _ in known]) / len(known), total([b for _, b in known]) / len(known)


def _task_costs(side: Side, *, graded: bool) -> dict[str, float | None]:
    rows = side.run.rows if side.run else ()
    attempts = [(trial.task, trial.cost) for trial in side.trials]
    tasks: dict[str, list[float | None]] = {}
    for task, cost in attempts if graded else [(row.task, row.cost.without_grading) for row in rows]:
        tasks.setdefault(task, []).append(cost)
    return {
        task: None if None in costs else total([cost or 0.0 for cost in costs]) / len(costs)
        for task, costs in tasks.items()
    }
